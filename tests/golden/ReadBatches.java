import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

/**
 * Reads hex of record batches, one a line, with the Java client's own reader, checksum first, and prints for each the
 * codec and the records in the form GoldenBatches uses.
 */
public class ReadBatches {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(line)));
            for (MutableRecordBatch batch : records.batches()) System.out.println(read(batch));
        }
    }

    static String read(MutableRecordBatch batch) {
        batch.ensureValid();
        List<String> records = new ArrayList<>();
        for (Record record : batch) {
            record.ensureValid();
            List<String> headers = new ArrayList<>();
            for (Header header : record.headers()) headers.add("[\"" + header.key() + "\"," + hex(header.value()) + "]");
            records.add("[" + record.timestamp() + "," + hex(bytes(record.key())) + "," + hex(bytes(record.value()))
                + ",[" + String.join(",", headers) + "]]");
        }
        return "{\"codec\":\"" + batch.compressionType().name + "\",\"producer_id\":" + batch.producerId()
            + ",\"epoch\":" + batch.producerEpoch() + ",\"sequence\":" + batch.baseSequence()
            + ",\"records\":[" + String.join(",", records) + "]}";
    }

    static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        return data;
    }

    static String hex(byte[] data) {
        return data == null ? "null" : '"' + HexFormat.of().formatHex(data) + '"';
    }
}

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.internals.ProducerBatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;

/**
 * Writes record batches with the Java producer's own ProducerBatch, in the steps of its accumulator and sender, and
 * prints one JSON line for each: the records that went in and the bytes that came out.
 */
public class GoldenBatches {
    static final HexFormat HEX = HexFormat.of();
    static final long NOW = 1_700_000_000_000L;
    /** Batches above this length are given by length and SHA-256. */
    static final int WHOLE = 4_000;

    /** Bytes of a field, and how JSON says them: hex, or [byte, count] for many equal ones. */
    record Bytes(byte[] data, String json) {
        static final Bytes NULL = new Bytes(null, "null");

        static Bytes of(byte[] data) {
            return new Bytes(data, '"' + HEX.formatHex(data) + '"');
        }

        static Bytes of(String text) {
            return of(text.getBytes(StandardCharsets.UTF_8));
        }

        static Bytes many(int value, int count) {
            byte[] data = new byte[count];
            Arrays.fill(data, (byte) value);
            return new Bytes(data, "[" + value + "," + count + "]");
        }
    }

    record HeaderOf(String name, Bytes value) {
        String json() {
            StringBuilder escaped = new StringBuilder();
            for (char c : name.toCharArray()) escaped.append(String.format("\\u%04x", (int) c));
            return "[\"" + escaped + "\"," + value.json + "]";
        }
    }

    record RecordOf(long timestamp, Bytes key, Bytes value, List<HeaderOf> headers) {
        RecordOf(long timestamp, Bytes key, Bytes value, HeaderOf... headers) {
            this(timestamp, key, value, List.of(headers));
        }

        String json(int times) {
            String all = headers.stream().map(HeaderOf::json).collect(Collectors.joining(",", "[", "]"));
            return "[" + timestamp + "," + key.json + "," + value.json + "," + all + "," + times + "]";
        }

        Header[] kafkaHeaders() {
            return headers.stream().map(h -> new RecordHeader(h.name, h.value.data)).toArray(Header[]::new);
        }
    }

    record Producer(long id, int epoch, int sequence, boolean transactional) {
        static final Producer NONE = new Producer(-1, -1, -1, false);
    }

    static byte[] write(Compression compression, Producer producer, List<RecordOf> records) {
        MemoryRecordsBuilder builder =
            MemoryRecords.builder(ByteBuffer.allocate(1 << 23), compression, TimestampType.CREATE_TIME, 0L);
        ProducerBatch batch = new ProducerBatch(new TopicPartition("golden", 0), builder, NOW);
        for (RecordOf one : records) {
            if (batch.tryAppend(one.timestamp, one.key.data, one.value.data, one.kafkaHeaders(), null, NOW) == null)
                throw new IllegalStateException("the batch is full");
        }
        if (producer.id >= 0) {
            ProducerIdAndEpoch identity = new ProducerIdAndEpoch(producer.id, (short) producer.epoch);
            batch.setProducerState(identity, producer.sequence, producer.transactional);
        }
        batch.close();
        ByteBuffer buffer = batch.records().buffer().duplicate();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    static void print(String name, String codec, Producer p, List<RecordOf> records) throws Exception {
        byte[] bytes = write(compression(codec), p, records);
        String digest = HEX.formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        String written = bytes.length <= WHOLE ? "\"bytes\":\"" + HEX.formatHex(bytes) + "\"" : "\"bytes\":null";
        System.out.printf(
            "{\"name\":\"%s\",\"codec\":\"%s\",\"producer_id\":%d,\"epoch\":%d,\"sequence\":%d,\"transactional\":%b,"
                + "\"records\":%s,\"size\":%d,\"sha256\":\"%s\",%s}%n",
            name, codec, p.id, p.epoch, p.sequence, p.transactional,
            runs(records),
            bytes.length, digest, written);
    }

    /** Each record with how many times it comes in a row. */
    static String runs(List<RecordOf> records) {
        List<String> runs = new ArrayList<>();
        int start = 0;
        for (int i = 1; i <= records.size(); i++) {
            if (i < records.size() && records.get(i).equals(records.get(start))) continue;
            runs.add(records.get(start).json(i - start));
            start = i;
        }
        return "[" + String.join(",", runs) + "]";
    }

    static void print(String name, RecordOf... records) throws Exception {
        print(name, "none", new Producer(4711, 3, 17, false), List.of(records));
    }

    static Compression compression(String codec) {
        return switch (codec) {
            case "gzip" -> Compression.gzip().build();
            case "snappy" -> Compression.snappy().build();
            case "lz4" -> Compression.lz4().build();
            case "zstd" -> Compression.zstd().build();
            default -> Compression.NONE;
        };
    }

    public static void main(String[] arguments) throws Exception {
        fields();
        headers();
        timestamps();
        lengths();
        producers();
        counts();
        mixtures();
        codecs();
    }

    static void fields() throws Exception {
        Bytes empty = Bytes.of("");
        print("value only", new RecordOf(NOW, Bytes.NULL, Bytes.of("value")));
        print("key and value", new RecordOf(NOW, Bytes.of("key"), Bytes.of("value")));
        print("tombstone", new RecordOf(NOW, Bytes.of("key"), Bytes.NULL));
        print("both null", new RecordOf(NOW, Bytes.NULL, Bytes.NULL));
        print("both empty", new RecordOf(NOW, empty, empty));
        print("empty key, null value", new RecordOf(NOW, empty, Bytes.NULL));
        print("null key, empty value", new RecordOf(NOW, Bytes.NULL, empty));
        byte[] all = new byte[256];
        for (int i = 0; i < 256; i++) all[i] = (byte) i;
        print("every byte", new RecordOf(NOW, Bytes.of(all), Bytes.of(all)));
    }

    static void headers() throws Exception {
        Bytes value = Bytes.of("v");
        HeaderOf one = new HeaderOf("trace", Bytes.of("1"));
        print("one header", new RecordOf(NOW, Bytes.NULL, value, one));
        print("null header", new RecordOf(NOW, Bytes.NULL, value, new HeaderOf("trace", Bytes.NULL)));
        print("empty header", new RecordOf(NOW, Bytes.NULL, value, new HeaderOf("", Bytes.of(""))));
        print("repeated header", new RecordOf(NOW, Bytes.NULL, value, one, new HeaderOf("trace", Bytes.of("2")), one));
        print("non-ascii header", new RecordOf(NOW, Bytes.NULL, value, new HeaderOf("\u00e9\u20ac\ud83c\udf50", Bytes.of("\u00e9"))));
        print("long header", new RecordOf(NOW, Bytes.NULL, value, new HeaderOf("n".repeat(200), Bytes.many(7, 9000))));
        HeaderOf[] many = new HeaderOf[70];
        for (int i = 0; i < many.length; i++) many[i] = new HeaderOf("h" + i, i % 3 == 0 ? Bytes.NULL : Bytes.of("" + i));
        print("70 headers", new RecordOf(NOW, Bytes.of("k"), value, many), new RecordOf(NOW, Bytes.NULL, value, one));
    }

    static void timestamps() throws Exception {
        for (long delta : new long[] {1, 63, 64, 8191, 8192, 1 << 20, (1L << 27) - 1, 1L << 27, 1L << 31, 1L << 35, 1L << 40}) {
            print("timestamp +" + delta, at(NOW), at(NOW + delta));
            print("timestamp -" + delta, at(NOW), at(NOW - delta));
        }
        print("timestamp 0", at(0));
        print("timestamps from 0", at(0), at(NOW));
        print("timestamps to 0", at(NOW), at(0));
        print("greatest timestamp", at(Long.MAX_VALUE));
        print("greatest delta", at(0), at(Long.MAX_VALUE));
        print("least delta", at(Long.MAX_VALUE), at(0));
        print("greatest in the middle", at(NOW), at(NOW + 5), at(NOW - 5), at(NOW + 1));
    }

    static RecordOf at(long timestamp) {
        return new RecordOf(timestamp, Bytes.NULL, Bytes.of("v"));
    }

    /** Both sides of every step in the width of a varint: of the field, and of the record around it. */
    static void lengths() throws Exception {
        for (int middle : new int[] {64, 8192}) {
            for (int length = middle - 14; length <= middle + 2; length++) {
                print("value of " + length, new RecordOf(NOW, Bytes.NULL, Bytes.many('v', length)));
                print("key of " + length, new RecordOf(NOW, Bytes.many('k', length), Bytes.NULL));
            }
        }
        for (int length : new int[] {(1 << 20) - 12, (1 << 20) - 1, 1 << 20, (1 << 20) + 1})
            print("value of " + length, new RecordOf(NOW, Bytes.NULL, Bytes.many('v', length)));
    }

    static void producers() throws Exception {
        List<RecordOf> three = List.of(at(NOW), at(NOW + 1), at(NOW + 2));
        print("no producer id", "none", Producer.NONE, three);
        print("first batch", "none", new Producer(0, 0, 0, false), three);
        print("greatest identity", "none", new Producer(Long.MAX_VALUE, Short.MAX_VALUE, Integer.MAX_VALUE, false), three);
        print("sequence wraps inside", "none", new Producer(9, 1, Integer.MAX_VALUE - 1, false), three);
        print("sequence before the wrap", "none", new Producer(9, 1, Integer.MAX_VALUE - 2, false), three);
        print("transactional", "none", new Producer(9, 1, 5, true), three);
    }

    static void counts() throws Exception {
        for (int count : new int[] {1, 2, 63, 64, 65, 127, 128, 300}) {
            RecordOf[] records = new RecordOf[count];
            for (int i = 0; i < count; i++) records[i] = new RecordOf(NOW + i / 10, Bytes.NULL, Bytes.of("" + i));
            print(count + " records", records);
        }
        RecordOf[] records = new RecordOf[8200];
        Arrays.fill(records, new RecordOf(NOW, Bytes.NULL, Bytes.many('v', 3)));
        print("offset deltas of three bytes", records);
    }

    static void mixtures() throws Exception {
        Random random = new Random(20240229);
        for (int mixture = 0; mixture < 120; mixture++) {
            List<RecordOf> records = new ArrayList<>();
            int count = 1 + random.nextInt(12);
            for (int i = 0; i < count; i++) records.add(mixed(random));
            Producer producer = new Producer(
                random.nextLong() & Long.MAX_VALUE, random.nextInt(1 << 15), random.nextInt() & Integer.MAX_VALUE, false);
            print("mixture " + mixture, "none", producer, records);
        }
    }

    static RecordOf mixed(Random random) {
        List<HeaderOf> headers = new ArrayList<>();
        for (int i = random.nextInt(8) - 4; i > 0; i--) headers.add(new HeaderOf("h" + random.nextInt(3), some(random, 30)));
        long timestamp = NOW + (random.nextInt(4) == 0 ? random.nextInt() : random.nextInt(100));
        return new RecordOf(timestamp, some(random, 40), some(random, 150), headers);
    }

    static Bytes some(Random random, int limit) {
        if (random.nextInt(4) == 0) return Bytes.NULL;
        byte[] data = new byte[random.nextInt(limit)];
        random.nextBytes(data);
        return Bytes.of(data);
    }

    static void codecs() throws Exception {
        Producer producer = new Producer(4711, 3, 17, false);
        for (String codec : new String[] {"gzip", "snappy", "lz4", "zstd"}) {
            print(codec + " of one", codec, producer, List.of(at(NOW)));
            List<RecordOf> many = new ArrayList<>();
            for (int i = 0; i < 200; i++)
                many.add(new RecordOf(NOW + i, Bytes.of("key-" + i), Bytes.of("some text that comes again and again, " + i)));
            print(codec + " of 200", codec, producer, many);
            print(codec + " of 100 kB", codec, producer, List.of(new RecordOf(NOW, Bytes.NULL, Bytes.many('v', 100_000))));
        }
    }
}

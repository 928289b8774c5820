import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Reads messages as Kafka's own classes do and writes them again: "request 3 12 HEX" in, HEX out, a line each. */
class EchoMessages {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.append(echo(line.split(" ", -1))).append('\n');
        }
        System.out.print(answers);
    }

    private static String echo(String[] parts) {
        ApiMessageType type = ApiMessageType.fromApiKey(Short.parseShort(parts[1]));
        short version = Short.parseShort(parts[2]);
        ApiMessage message = parts[0].equals("request") ? type.newRequest() : type.newResponse();
        ByteBuffer input = ByteBuffer.wrap(HexFormat.of().parseHex(parts[3]));
        message.read(new ByteBufferAccessor(input), version);
        if (input.hasRemaining()) {
            return "left " + input.remaining();
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer output = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(output), cache, version);
        return HexFormat.of().formatHex(output.array());
    }
}

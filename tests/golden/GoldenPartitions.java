import java.util.Arrays;
import java.util.HexFormat;
import java.util.Random;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/** Prints one JSON line for each key: its hex, its murmur2, and the partition of it among each of COUNTS. */
public class GoldenPartitions {
    static final int[] COUNTS = {1, 2, 3, 4, 6, 7, 12, 50, 100, 1000, 10007};
    static final int LONGEST = 64;
    static final int RANDOM_KEYS = 20;

    public static void main(String[] arguments) {
        System.out.println("{\"counts\":" + compact(COUNTS) + "}");
        Random random = new Random(20240229);
        for (int length = 0; length <= LONGEST; length++) {
            for (int special : new int[] {0x00, 0x7f, 0x80, 0xff}) {
                byte[] key = new byte[length];
                Arrays.fill(key, (byte) special);
                if (length > 0 || special == 0) print(key);
            }
            for (int i = 0; i < RANDOM_KEYS && length > 0; i++) {
                byte[] key = new byte[length];
                random.nextBytes(key);
                print(key);
            }
        }
    }

    static void print(byte[] key) {
        int[] partitions = new int[COUNTS.length];
        for (int i = 0; i < COUNTS.length; i++) partitions[i] = BuiltInPartitioner.partitionForKey(key, COUNTS[i]);
        String hex = HexFormat.of().formatHex(key);
        System.out.println("[\"" + hex + "\"," + Utils.murmur2(key) + "," + compact(partitions) + "]");
    }

    static String compact(int[] numbers) {
        return Arrays.toString(numbers).replace(" ", "");
    }
}

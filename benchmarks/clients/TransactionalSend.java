import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions one after the other: TOPIC RECORDS WARM-UP PER-TRANSACTION SIZE NAME=VALUE...
 *
 * Prints the seconds of all, their processor time, and then the seconds of each commit, a line each.
 */
class TransactionalSend {
    private static final int MOST_PARTITIONS = 64;

    private final KafkaProducer<byte[], byte[]> producer;
    private final String topic;
    private final byte[] value;
    private final int each;
    private final long[] last = new long[MOST_PARTITIONS];
    private final int[] lastTransaction = new int[MOST_PARTITIONS];
    private volatile int transaction = 0;
    private volatile long acked = 0;
    private volatile String failure = null;

    TransactionalSend(Properties settings, String topic, int each, int size) {
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        this.topic = topic;
        this.each = each;
        value = new byte[size];
        for (int index = 0; index < size; index++) {
            value[index] = (byte) (index % 251);
        }
        Arrays.fill(last, -1);
    }

    /** Offsets come in order, without a gap and a repeat; between two transactions is the marker of the first. */
    private final Callback callback = (metadata, error) -> {
        if (error != null) {
            failure = error.toString();
            return;
        }
        int partition = metadata.partition();
        long marker = lastTransaction[partition] == transaction ? 0 : 1;
        if (last[partition] >= 0 && metadata.offset() != last[partition] + 1 + marker) {
            failure = "offset " + metadata.offset() + " came after " + last[partition] + " in " + partition;
        }
        last[partition] = metadata.offset();
        lastTransaction[partition] = transaction;
        acked += 1;
    };

    private double[] transact(int records) {
        double[] commits = new double[records / each];
        for (int number = 0; number < commits.length; number++) {
            transaction += 1;
            producer.beginTransaction();
            for (int record = 0; record < each; record++) {
                producer.send(new ProducerRecord<>(topic, value), callback);
            }
            long began = System.nanoTime();
            // Without this, the commit of kafka-clients 4.3.1 overtakes its only record once in some thousand times, and
            // ends the producer: its thread looks for unsent batches just before there is one, and then sends EndTxn.
            producer.flush();
            producer.commitTransaction();
            commits[number] = (System.nanoTime() - began) / 1e9;
        }
        return commits;
    }

    private void check(long expected) {
        if (failure != null || acked != expected) {
            System.err.println(expected + " records were sent and " + acked + " acknowledged: " + failure);
            System.exit(1);
        }
    }

    private static double processorSeconds() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1e9;
    }

    public static void main(String[] arguments) {
        try {
            measure(arguments);
        } catch (RuntimeException error) {
            // Kafka's errors have no stack trace, over which the launcher of programs in one file stumbles.
            System.err.println(error + ", caused by " + error.getCause());
            System.exit(1);
        }
    }

    private static void measure(String[] arguments) {
        Properties settings = new Properties();
        for (String setting : Arrays.copyOfRange(arguments, 5, arguments.length)) {
            String[] pair = setting.split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        int[] numbers = Arrays.stream(arguments, 1, 5).mapToInt(Integer::parseInt).toArray();
        var client = new TransactionalSend(settings, arguments[0], numbers[2], numbers[3]);
        client.producer.initTransactions();
        client.transact(numbers[1]);
        client.check(numbers[1]);
        double processor = processorSeconds();
        long began = System.nanoTime();
        double[] commits = client.transact(numbers[0]);
        double seconds = (System.nanoTime() - began) / 1e9;
        processor = processorSeconds() - processor;
        client.check((long) numbers[0] + numbers[1]);
        client.producer.close();
        System.out.println(seconds + " " + processor);
        for (double commit : commits) {
            System.out.println(commit);
        }
    }
}

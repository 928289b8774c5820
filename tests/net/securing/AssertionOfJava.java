// Signs an assertion as Kafka's client does, with the settings of a properties file, and prints it.
// java -Dorg.apache.kafka.sasl.oauthbearer.allowed.files=… -cp 'KAFKA/lib/*' tests/net/securing/AssertionOfJava.java FILE
import java.io.FileReader;
import java.util.Properties;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.security.oauthbearer.internals.secured.ConfigurationUtils;
import org.apache.kafka.common.security.oauthbearer.internals.secured.assertion.AssertionSupplierFactory;
import org.apache.kafka.common.utils.Time;

public class AssertionOfJava {
    public static void main(String[] paths) throws Exception {
        Properties properties = new Properties();
        try (FileReader reader = new FileReader(paths[0])) {
            properties.load(reader);
        }
        for (String part : new String[] {"key", "value"}) {
            properties.put(part + ".serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        }
        ConfigurationUtils settings = new ConfigurationUtils(new ProducerConfig(properties).values());
        System.out.println(AssertionSupplierFactory.create(settings, Time.SYSTEM).get());
    }
}

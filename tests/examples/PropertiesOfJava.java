// Reads each properties file as a Java producer does: its settings, and its JAAS string. Prints the login modules.
// java -cp 'KAFKA/lib/*' tests/examples/PropertiesOfJava.java FILE…
import java.io.FileReader;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.security.JaasContext;

public class PropertiesOfJava {
    public static void main(String[] paths) throws Exception {
        for (String path : paths) {
            Properties properties = new Properties();
            try (FileReader reader = new FileReader(path)) {
                properties.load(reader);
            }
            // A class of Amazon, which is not part of Kafka.
            properties.remove("sasl.client.callback.handler.class");
            for (String part : new String[] {"key", "value"}) {
                properties.put(part + ".serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
            }
            Map<String, ?> values = new ProducerConfig(properties).values();
            String modules = "";
            if (values.get("sasl.jaas.config") != null) {
                modules = JaasContext.loadClientContext(values).configurationEntries().get(0).getLoginModuleName();
            }
            System.out.println(values.get("security.protocol") + " " + modules);
        }
    }
}

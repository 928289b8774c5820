// Writes every property of Kafka's Java producer: name, type, default, allowed values.
// java -cp 'KAFKA/lib/*' tests/vocabulary/ProducerConfigDump.java > tests/vocabulary/producer_config_4.3.1.json
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

public class ProducerConfigDump {
    public static void main(String[] args) throws Exception {
        Map<String, Object> all = new TreeMap<>();
        for (ConfigDef.ConfigKey key : ProducerConfig.configDef().configKeys().values()) {
            Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("type", key.type.name());
            facts.put("required", !key.hasDefault());
            Object value = key.hasDefault() ? key.defaultValue : null;
            facts.put("default", value instanceof Class<?> c ? c.getName() : value);
            facts.put("valid", key.validator == null ? null : key.validator.toString());
            all.put(key.name, facts);
        }
        ObjectMapper mapper = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
        System.out.println(mapper.writeValueAsString(all));
    }
}

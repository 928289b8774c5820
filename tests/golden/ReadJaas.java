import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/** Reads JAAS strings, one in hex on each line; prints the module and its options in hex, or "refused". */
public class ReadJaas {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(read(new String(HexFormat.of().parseHex(line), StandardCharsets.UTF_8)));
        }
    }

    static String read(String text) {
        try {
            var entry = JaasContext.loadClientContext(Map.of("sasl.jaas.config", new Password(text)))
                .configurationEntries().get(0);
            Map<String, Object> options = new TreeMap<>(entry.getOptions());
            return hex(entry.getLoginModuleName()) + options.entrySet().stream()
                .map(option -> " " + hex(option.getKey()) + "=" + hex((String) option.getValue()))
                .collect(Collectors.joining());
        } catch (RuntimeException refused) {
            return "refused";
        }
    }

    static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}

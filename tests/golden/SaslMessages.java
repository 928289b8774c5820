import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensions;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslClient;
import org.apache.kafka.common.security.scram.ScramExtensionsCallback;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslClient;

/**
 * The messages of Java's client, in hex. A line has a mechanism and its facts, in hex, separated by spaces:
 * "PLAIN user password", "SCRAM-SHA-256 user password salt iterations tokenauth", "OAUTHBEARER token name=value...".
 * For SCRAM it prints the first message, the broker's, and the last one.
 */
public class SaslMessages {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            List<String> facts = new ArrayList<>();
            for (int index = 1; index < words.length; index++) {
                facts.add(new String(HexFormat.of().parseHex(words[index]), StandardCharsets.UTF_8));
            }
            System.out.println(switch (words[0]) {
                case "PLAIN" -> plain(facts);
                case "OAUTHBEARER" -> oauthbearer(facts);
                default -> scram(words[0], facts);
            });
        }
    }

    static String plain(List<String> facts) throws Exception {
        CallbackHandler handler = callbacks -> answer(callbacks, facts, Map.of());
        SaslClient client = Sasl.createSaslClient(new String[] {"PLAIN"}, null, "kafka", "localhost", Map.of(), handler);
        return hex(client.evaluateChallenge(new byte[0]));
    }

    static String scram(String mechanism, List<String> facts) throws Exception {
        Map<String, String> extensions = facts.get(4).equals("true") ? Map.of("tokenauth", "true") : Map.of();
        CallbackHandler handler = callbacks -> answer(callbacks, facts, extensions);
        SaslClient client = new ScramSaslClient(ScramMechanism.forMechanismName(mechanism), handler);
        byte[] first = client.evaluateChallenge(new byte[0]);
        String text = new String(first, StandardCharsets.UTF_8);
        String nonce = text.substring(text.indexOf(",r=") + 3).split(",")[0];
        byte[] server = ("r=" + nonce + "more,s=" + facts.get(2) + ",i=" + facts.get(3)).getBytes(StandardCharsets.UTF_8);
        return hex(first) + " " + hex(server) + " " + hex(client.evaluateChallenge(server));
    }

    static String oauthbearer(List<String> facts) throws Exception {
        Map<String, String> extensions = new TreeMap<>();
        for (String extension : facts.subList(1, facts.size())) {
            extensions.put(extension.split("=", 2)[0], extension.split("=", 2)[1]);
        }
        SaslClient client = new OAuthBearerSaslClient(new AuthenticateCallbackHandler() {
            public void configure(Map<String, ?> configs, String mechanism,
                                  List<javax.security.auth.login.AppConfigurationEntry> entries) { }

            public void close() { }

            public void handle(Callback[] callbacks) {
                answer(callbacks, facts, extensions);
            }
        });
        return hex(client.evaluateChallenge(new byte[0]));
    }

    static void answer(Callback[] callbacks, List<String> facts, Map<String, String> extensions) {
        for (Callback callback : callbacks) {
            if (callback instanceof NameCallback name) {
                name.setName(facts.get(0));
            } else if (callback instanceof PasswordCallback password) {
                password.setPassword(facts.get(1).toCharArray());
            } else if (callback instanceof ScramExtensionsCallback scram) {
                scram.extensions(extensions);
            } else if (callback instanceof SaslExtensionsCallback sasl) {
                sasl.extensions(new SaslExtensions(extensions));
            } else if (callback instanceof OAuthBearerTokenCallback bearer) {
                bearer.token(new Token(facts.get(0)));
            }
        }
    }

    record Token(String value) implements OAuthBearerToken {
        public java.util.Set<String> scope() {
            return java.util.Set.of();
        }

        public long lifetimeMs() {
            return Long.MAX_VALUE;
        }

        public String principalName() {
            return "user";
        }

        public Long startTimeMs() {
            return null;
        }
    }

    static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}

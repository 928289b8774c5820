import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints Kafka's error codes, one a line: code, name, retriable, refreshes metadata, message; tab-separated. */
class ErrorCodes {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            System.out.println(String.join("\t",
                Short.toString(error.code()),
                error.name(),
                Boolean.toString(error.exception() instanceof RetriableException),
                Boolean.toString(error.exception() instanceof InvalidMetadataException),
                error.code() == 0 ? "" : error.message().replaceAll("\\s+", " ").strip()));
        }
    }
}

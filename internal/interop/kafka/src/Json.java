import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;

/** JSON, one object a line; fields keep the order in which they were given. */
final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {}

    static Map<String, Object> of(Object... fields) {
        Map<String, Object> m = new LinkedHashMap<>();
        for (int i = 0; i < fields.length; i += 2) m.put((String) fields[i], fields[i + 1]);
        return m;
    }

    static String text(Object o) {
        try {
            return MAPPER.writeValueAsString(o);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static Map<String, Object> read(Path file) throws IOException {
        return MAPPER.readValue(file.toFile(), new TypeReference<LinkedHashMap<String, Object>>() {});
    }

    static void write(Path file, Object o) throws IOException {
        Files.writeString(file, text(o) + "\n");
    }

    static void lines(Path file, Collection<?> all) throws IOException {
        StringBuilder b = new StringBuilder();
        for (Object o : all) b.append(text(o)).append('\n');
        Files.writeString(file, b.toString());
    }

    /** Hexadecimal digits; null for null. */
    static String hex(byte[] b) {
        return b == null ? null : HexFormat.of().formatHex(b);
    }

    static byte[] bytes(String hex) {
        return HexFormat.of().parseHex(hex);
    }
}

import java.util.Random;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

/** Keys and values for records: no two values are alike, and the seed gives the same again. */
final class Text {
    private static final String[] WORDS = ("amber basalt cedar delta ember fjord garnet harbor indigo juniper kelp lagoon marble "
        + "nectar onyx prairie quartz river saffron thistle umber valley willow xenon yarrow zephyr").split(" ");

    final Random random;
    private final String prefix;
    private int serial;

    Text(String prefix, long seed) {
        this.prefix = prefix;
        this.random = new Random(seed);
    }

    int between(int low, int high) { return low + random.nextInt(high - low + 1); }
    boolean chance(double p) { return random.nextDouble() < p; }

    byte[] key() { return Cluster.utf8("k" + serial); }

    /** A value of about so many bytes. */
    byte[] value(int low, int high) {
        StringBuilder b = new StringBuilder(prefix).append(' ').append(serial++);
        for (int size = between(low, high); b.length() < size; ) b.append(' ').append(WORDS[random.nextInt(WORDS.length)]);
        return Cluster.utf8(b.toString());
    }

    long now() { return System.currentTimeMillis() - between(0, 40); }

    SimpleRecord[] records(int n, int low, int high) {
        SimpleRecord[] r = new SimpleRecord[n];
        for (int i = 0; i < n; i++) r[i] = new SimpleRecord(now(), key(), value(low, high));
        return r;
    }
}

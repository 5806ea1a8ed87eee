import java.io.IOException;
import java.nio.file.Path;
import java.util.*;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

/**
 * Continue PORT SEED STATE: after another engine had the directory. Every raw producer of STATE sends its last batch again, which
 * must be answered with the offset it was given; then a batch with a gap before it, and if the epoch was raised one with the epoch
 * before, which must be refused; then goes on with its next sequence. The open transactions are ended, and the clients of Kafka
 * work on. STATE is brought up to date.
 */
public final class Continue {
    private static final int OUT_OF_ORDER_SEQUENCE = 45, INVALID_PRODUCER_EPOCH = 47;

    public static void main(String[] args) throws Exception {
        Path file = Path.of(args[2]);
        long seed = Long.parseLong(args[1]);
        Map<String, Object> state = Json.read(file);
        try (Cluster c = new Cluster(Integer.parseInt(args[0]))) {
            Continue k = new Continue(c, seed);
            state.put("raw", k.raw(list(state, "raw")));
            state.put("open", k.open(list(state, "open")));
            Json.write(file, state);
            Produce p = new Produce(c, "continued " + seed, seed);
            p.codecs(40);
            p.idempotent(20);
            p.appendTime();
            new Orders(p).run(60);
            System.out.println(Json.text(Json.of("duplicates", k.duplicates, "refused", k.refused, "continued", k.continued, "ended", k.ended)));
        }
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> list(Map<String, Object> m, String field) { return (List<Map<String, Object>>) m.get(field); }

    private final Cluster cluster;
    private final Text text;
    private int duplicates, refused, continued, ended;

    private Continue(Cluster cluster, long seed) {
        this.cluster = cluster;
        this.text = new Text("raw continued " + seed, seed);
    }

    private List<Object> raw(List<Map<String, Object>> all) throws Exception {
        List<Object> after = new ArrayList<>();
        for (Map<String, Object> m : all) {
            RawProducer p = RawProducer.of(cluster.connection, m);
            duplicate(p);
            refuse(p, p.epoch, (p.nextSequence + 1) & Integer.MAX_VALUE, OUT_OF_ORDER_SEQUENCE);
            if (p.epoch > 0) refuse(p, p.epoch - 1, p.nextSequence, INVALID_PRODUCER_EPOCH);
            for (int i = 0; i < 8; i++) {
                p.send(CompressionType.forName(Produce.CODECS[i % 5]), text.records(text.between(1, 5), 20, 100));
                continued++;
            }
            duplicate(p);
            after.add(p.json());
        }
        return after;
    }

    /** Its last batch once more: no error, the first one's offset, nothing appended. */
    private void duplicate(RawProducer p) throws Exception {
        Ask ask = new Ask(cluster.connection);
        long end = ask.list(p.topic, p.partition, 0, -1).offset();
        RawProducer.Answer a = p.produce(p.lastBatch);
        Connection.must("duplicate of " + p.name, a.error());
        if (a.baseOffset() != p.lastBaseOffset)
            throw new IOException("duplicate of " + p.name + ": answered with offset " + a.baseOffset() + ", the batch is at " + p.lastBaseOffset);
        long now = ask.list(p.topic, p.partition, 0, -1).offset();
        if (now != end) throw new IOException("duplicate of " + p.name + ": the log grew from " + end + " to " + now);
        duplicates++;
    }

    private void refuse(RawProducer p, int epoch, int sequence, int error) throws Exception {
        RawProducer.Answer a = p.produce(p.batch(CompressionType.NONE, epoch, sequence, text.records(1, 20, 30)));
        if (a.error() != error)
            throw new IOException(p.name + ", epoch " + epoch + ", sequence " + sequence + ": error " + a.error() + " at " + a.baseOffset() + ", expected " + error);
        refused++;
    }

    /** Each sends its last batch again, and once more, and ends as its name says: not before all are done, since markers come when they like. */
    private List<Object> open(List<Map<String, Object>> all) throws Exception {
        List<RawProducer> producers = all.stream().map(m -> RawProducer.of(cluster.connection, m)).toList();
        for (RawProducer p : producers) {
            duplicate(p);
            p.send(CompressionType.NONE, text.records(2, 20, 60));
            continued++;
        }
        for (RawProducer p : producers) {
            p.end(p.name.equals("commit"));
            ended++;
        }
        return List.of();
    }
}

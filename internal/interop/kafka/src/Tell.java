import java.nio.ByteBuffer;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Tell PORT OUT SEED SAMPLES: writes down what the broker and Kafka's consumer say about every partition, in the format of
 * testdata/kafka-4.1.2/README.md. SAMPLES is how many offsets of a partition are fetched from.
 */
public final class Tell {
    static final String[] ISOLATION = {"read_uncommitted", "read_committed"};

    private final Cluster cluster;
    private final Ask ask;
    private final Path out;
    private final long seed;
    private final int samples;
    private final List<KafkaConsumer<byte[], byte[]>> consumers = new ArrayList<>();

    private Tell(Cluster cluster, Path out, long seed, int samples) {
        this.cluster = cluster;
        this.ask = new Ask(cluster.connection);
        this.out = out;
        this.seed = seed;
        this.samples = samples;
        for (String isolation : ISOLATION)
            consumers.add(new KafkaConsumer<>(Map.of("bootstrap.servers", "127.0.0.1:" + cluster.port, "isolation.level", isolation, "enable.auto.commit", false,
                "auto.offset.reset", "none", "max.poll.records", 5000, "fetch.max.wait.ms", 20), new ByteArrayDeserializer(), new ByteArrayDeserializer()));
    }

    public static void main(String[] args) throws Exception {
        Path out = Path.of(args[1]);
        Files.createDirectories(out);
        try (Cluster c = new Cluster(Integer.parseInt(args[0]))) {
            Tell t = new Tell(c, out, Long.parseLong(args[2]), Integer.parseInt(args[3]));
            SortedMap<String, TopicDescription> topics = c.topics();
            int partitions = 0, records = 0;
            for (TopicDescription d : topics.values())
                for (int p = 0; p < d.partitions().size(); p++, partitions++) records += t.partition(d, p);
            Json.lines(out.resolve("transactions.jsonl"), t.ask.transactions());
            Json.lines(out.resolve("group_offsets.jsonl"), t.ask.groupOffsets(c));
            Json.write(out.resolve("capture.json"), Json.of("seed", t.seed, "captured_at", System.currentTimeMillis()));
            for (KafkaConsumer<byte[], byte[]> x : t.consumers) x.close();
            System.out.println(Json.text(Json.of("partitions", partitions, "records", records)));
        }
    }

    private int partition(TopicDescription topic, int p) throws Exception {
        String name = topic.name();
        Path dir = Files.createDirectories(out.resolve(name + "-" + p));
        Random random = new Random(seed * 31 + dir.getFileName().toString().hashCode());
        long start = ask.list(name, p, 0, -2).offset(), end = ask.list(name, p, 0, -1).offset();
        FetchResponseData.PartitionData f = ask.fetch(name, p, 1, end, 1);

        SortedMap<Long, Map<String, Object>> records = new TreeMap<>();
        long uncommitted = consume(name, p, 0, start, end, records);
        long committed = consume(name, p, 1, start, f.lastStableOffset(), records);
        Json.lines(dir.resolve("records.jsonl"), records.values());
        int epoch = ask.list(name, p, 0, -1).leaderEpoch();
        Json.write(dir.resolve("partition.json"), Json.of("topic", name, "partition", p, "topic_id", topic.topicId().toString(), "leader_epoch", epoch,
            "log_start", f.logStartOffset(), "lso", f.lastStableOffset(), "hw", f.highWatermark(),
            "position_read_uncommitted", uncommitted, "position_read_committed", committed, "producers", ask.producers(name, p)));
        Json.lines(dir.resolve("list_offsets.jsonl"), listOffsets(name, p, records.values(), random));
        Json.lines(dir.resolve("epochs.jsonl"), ask.epochs(name, p, epoch));
        Json.lines(dir.resolve("fetch.jsonl"), fetches(name, p, start, end, random));
        return records.size();
    }

    /** Reads with the consumer of one isolation level up to an offset; gives the consumer's position there. */
    private long consume(String topic, int p, int isolation, long start, long stop, SortedMap<Long, Map<String, Object>> records) {
        TopicPartition tp = new TopicPartition(topic, p);
        KafkaConsumer<byte[], byte[]> consumer = consumers.get(isolation);
        consumer.assign(List.of(tp));
        consumer.seek(tp, start);
        long until = System.currentTimeMillis() + 20_000;
        while (consumer.position(tp) < stop) {
            if (System.currentTimeMillis() > until)
                throw new IllegalStateException(tp + ": the " + ISOLATION[isolation] + " consumer stands at " + consumer.position(tp) + ", not at " + stop);
            for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(100))) {
                if (isolation == 0) records.put(r.offset(), describe(r));
                else records.get(r.offset()).put("committed", true);
            }
        }
        return consumer.position(tp);
    }

    private static Map<String, Object> describe(ConsumerRecord<byte[], byte[]> r) {
        Map<String, Object> m = Json.of("offset", r.offset(), "ts", r.timestamp(), "ts_type", r.timestampType().toString(),
            "leader_epoch", r.leaderEpoch().orElse(-1), "key", Json.hex(r.key()));
        if (r.value() != null && r.value().length > 200) {
            m.put("value_bytes", r.value().length);
            m.put("value_sha256", Ask.sha256(ByteBuffer.wrap(r.value())));
        } else {
            m.put("value", Json.hex(r.value()));
        }
        List<Object> headers = new ArrayList<>();
        for (Header h : r.headers()) headers.add(Arrays.asList(h.key(), Json.hex(h.value())));
        if (!headers.isEmpty()) m.put("headers", headers);
        m.put("committed", false);
        return m;
    }

    private List<Object> listOffsets(String topic, int p, Collection<Map<String, Object>> records, Random random) throws Exception {
        SortedSet<Long> queries = new TreeSet<>(List.of(-3L, -2L, -1L, 0L));
        List<Long> times = records.stream().map(r -> (Long) r.get("ts")).filter(t -> t >= 0).distinct().sorted().toList();
        if (!times.isEmpty()) {
            queries.addAll(List.of(times.get(0), times.get(times.size() - 1), times.get(times.size() - 1) + 1));
            for (int i = 0; i < 12; i++) {
                long t = times.get(random.nextInt(times.size()));
                queries.addAll(List.of(t, i % 2 == 0 ? t + 1 : Math.max(0, t - 1)));
            }
        }
        List<Object> all = new ArrayList<>();
        for (int isolation = 0; isolation < 2; isolation++)
            for (long q : queries) {
                ListOffsetsResponseData.ListOffsetsPartitionResponse r = ask.list(topic, p, isolation, q);
                all.add(Json.of("isolation", ISOLATION[isolation], "query", q, "error", r.errorCode(), "ts", r.timestamp(), "offset", r.offset(), "leader_epoch", r.leaderEpoch()));
            }
        return all;
    }

    /** Every offset of a short log, a sample of a long one, and one outside at each end. */
    private List<Object> fetches(String topic, int p, long start, long end, Random random) throws Exception {
        SortedSet<Long> offsets = new TreeSet<>(List.of(Math.max(0, start - 1), start, end, end + 1));
        if (end - start < samples) for (long o = start; o < end; o++) offsets.add(o);
        else while (offsets.size() < samples) offsets.add(start + (long) (random.nextDouble() * (end - start)));
        List<Object> all = new ArrayList<>();
        int n = 0;
        for (long o : offsets) {
            int size = new int[]{1, 300 + random.nextInt(400), 1000 + random.nextInt(3000), 1 << 20}[n++ % 4];
            for (int isolation = 0; isolation < 2; isolation++) {
                FetchResponseData.PartitionData r = ask.fetch(topic, p, isolation, o, size);
                ByteBuffer b = r.records() == null ? ByteBuffer.allocate(0) : ((MemoryRecords) r.records()).buffer();
                List<Object> aborted = null;
                if (r.abortedTransactions() != null) {
                    aborted = new ArrayList<>();
                    for (var a : r.abortedTransactions()) aborted.add(List.of(a.producerId(), a.firstOffset()));
                }
                all.add(Json.of("isolation", ISOLATION[isolation], "offset", o, "max_bytes", size, "error", r.errorCode(), "hw", r.highWatermark(),
                    "lso", r.lastStableOffset(), "log_start", r.logStartOffset(), "aborted", aborted, "bytes", b.remaining(), "sha256", b.hasRemaining() ? Ask.sha256(b) : null));
            }
        }
        return all;
    }
}

import java.nio.file.Path;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Produce PORT SEED STATE: makes the topics and fills them with Kafka's own clients and with raw requests. STATE gets what Continue
 * needs: the raw producers, and the transactions left open.
 */
public final class Produce {
    static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};

    final Cluster cluster;
    final Text text;
    final long seed;
    private long sent;

    Produce(Cluster cluster, String prefix, long seed) {
        this.cluster = cluster;
        this.seed = seed;
        this.text = new Text(prefix, seed);
    }

    public static void main(String[] args) throws Exception {
        long seed = Long.parseLong(args[1]);
        try (Cluster c = new Cluster(Integer.parseInt(args[0]))) {
            Produce p = new Produce(c, "first", seed);
            p.topics();
            p.codecs(400);
            p.odd();
            p.idempotent(60);
            p.appendTime();
            p.cut();
            p.compacted();
            new Orders(p).run(220);
            Json.write(Path.of(args[2]), Json.of("raw", p.raw(), "open", p.open()));
            System.out.println(Json.text(Json.of("produced", p.sent)));
        }
    }

    void topics() throws Exception {
        cluster.create("codec", CODECS.length, 16 << 10, Map.of());
        cluster.create("odd", 1, 96 << 10, Map.of());
        cluster.create("idempotent", 2, 8 << 10, Map.of());
        cluster.create("orders", 3, 6 << 10, Map.of());
        cluster.create("raw", 2, 4 << 10, Map.of());
        cluster.create("open", 1, 1 << 20, Map.of());
        cluster.create("appendtime", 1, 8 << 10, Map.of("message.timestamp.type", "LogAppendTime"));
        cluster.create("cut", 2, 4 << 10, Map.of());
        cluster.create("untouched", 1, 1 << 20, Map.of());
        cluster.create("compacted", 1, 4 << 10, Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01"));
    }

    /** Sends and counts; the answer is waited for by flush or close, and an error surfaces in the callback's counter. */
    void send(KafkaProducer<byte[], byte[]> p, ProducerRecord<byte[], byte[]> r) {
        sent++;
        p.send(r, (metadata, e) -> {
            if (e != null) {
                e.printStackTrace();
                System.exit(1);
            }
        });
    }

    /** One partition a codec, big batches and small ones. */
    void codecs(int n) {
        for (int c = 0; c < CODECS.length; c++) {
            Map<String, Object> config = Map.of("compression.type", CODECS[c], "enable.idempotence", false, "linger.ms", 50, "batch.size", 4096);
            try (KafkaProducer<byte[], byte[]> p = cluster.producer(config)) {
                for (int i = 0; i < n; i++) {
                    send(p, new ProducerRecord<>("codec", c, text.now(), text.key(), text.value(20, 300)));
                    if (text.chance(0.05)) p.flush();
                }
            }
        }
    }

    /** Null and empty keys, values and headers; timestamps at and far from the usual. */
    void odd() {
        Long[] times = {0L, 1L, text.now() - 86_400_000L, text.now(), 1L, text.now() + 1000};
        byte[][] bytes = {null, new byte[0], {0}, Cluster.utf8("ünïcödé")};
        List<List<Header>> headers = List.of(List.of(), List.of(new RecordHeader("", (byte[]) null)),
            List.of(new RecordHeader("a", new byte[0]), new RecordHeader("a", Cluster.utf8("again")), new RecordHeader("ключ", new byte[]{1, 2})));
        for (String codec : CODECS)
            try (KafkaProducer<byte[], byte[]> p = cluster.producer(Map.of("compression.type", codec, "linger.ms", 20))) {
                for (Long t : times)
                    for (byte[] key : bytes)
                        for (List<Header> h : headers) send(p, new ProducerRecord<>("odd", 0, t, key, bytes[text.between(0, 3)], h));
                send(p, new ProducerRecord<>("odd", 0, text.now(), null, new byte[70_000]));
            }
    }

    /** Two idempotent producers interleaved over two partitions, many small batches. */
    void idempotent(int rounds) {
        Map<String, Object> config = Map.of("enable.idempotence", true, "linger.ms", 0);
        try (KafkaProducer<byte[], byte[]> a = cluster.producer(config); KafkaProducer<byte[], byte[]> b = cluster.producer(config)) {
            for (int i = 0; i < rounds; i++) {
                KafkaProducer<byte[], byte[]> p = i % 2 == 0 ? a : b;
                for (int n = text.between(1, 4); n > 0; n--)
                    send(p, new ProducerRecord<>("idempotent", text.between(0, 1), text.now(), text.key(), text.value(10, 150), List.of(new RecordHeader("n", Cluster.utf8("" + n)))));
                if (text.chance(0.7)) p.flush();
            }
        }
    }

    void appendTime() {
        try (KafkaProducer<byte[], byte[]> p = cluster.producer(Map.of("linger.ms", 0))) {
            for (int i = 0; i < 60; i++) {
                send(p, new ProducerRecord<>("appendtime", 0, 12345L, text.key(), text.value(10, 150)));
                if (text.chance(0.5)) p.flush();
            }
        }
    }

    /** Logs that do not begin at 0: one cut inside a segment, one at its end. */
    void cut() throws Exception {
        try (KafkaProducer<byte[], byte[]> p = cluster.producer(Map.of("linger.ms", 0))) {
            for (int i = 0; i < 120; i++) {
                send(p, new ProducerRecord<>("cut", i % 2, text.now(), text.key(), text.value(40, 150)));
                if (text.chance(0.5)) p.flush();
            }
        }
        cluster.admin.deleteRecords(Map.of(new TopicPartition("cut", 0), RecordsToDelete.beforeOffset(37),
            new TopicPartition("cut", 1), RecordsToDelete.beforeOffset(-1))).all().get();
    }

    /** A log with gaps: keys overwritten and deleted, cleaned once, and then left alone so that it can be compared. */
    void compacted() throws Exception {
        try (KafkaProducer<byte[], byte[]> p = cluster.producer(Map.of("linger.ms", 5, "compression.type", "lz4"))) {
            for (int i = 0; i < 300; i++) {
                byte[] value = text.chance(0.1) ? null : text.value(30, 120);
                send(p, new ProducerRecord<>("compacted", 0, text.now(), Cluster.utf8("key" + text.between(0, 30)), value));
                if (text.chance(0.3)) p.flush();
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(null)) {
            TopicPartition tp = new TopicPartition("compacted", 0);
            consumer.assign(List.of(tp));
            for (int i = 0; ; i++) {
                consumer.seek(tp, 0);
                int n = 0;
                while (consumer.position(tp) < 300) n += consumer.poll(Duration.ofMillis(100)).count();
                if (n < 200) break;
                if (i == 200) throw new IllegalStateException("the cleaner did not come in 40 s: " + n + " records left of 300");
                Thread.sleep(200);
            }
        }
        cluster.alterTopic("compacted", "min.compaction.lag.ms", Long.toString(Long.MAX_VALUE));
    }

    KafkaConsumer<byte[], byte[]> consumer(String group) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", "127.0.0.1:" + cluster.port, "enable.auto.commit", false,
            "auto.offset.reset", "earliest", "fetch.max.wait.ms", 20));
        if (group != null) c.put("group.id", group);
        return new KafkaConsumer<>(c, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Producers to be continued: one as it is, one by the engine in between, one over the end of the sequences, one with a raised epoch. */
    List<Object> raw() throws Exception {
        List<Object> all = new ArrayList<>();
        for (String name : List.of("kept", "handed", "wraps", "raised")) {
            RawProducer p = new RawProducer(cluster.connection, name, "raw", all.size() % 2, null, 1);
            p.init();
            if (name.equals("wraps")) p.nextSequence = Integer.MAX_VALUE - 20;
            for (int i = 0; i < 12; i++) {
                CompressionType codec = CompressionType.forName(CODECS[i % CODECS.length]);
                if (name.equals("raised") && i == 6) {
                    p.epoch++;
                    p.nextSequence = 0;
                }
                SimpleRecord[] records = text.records(text.between(1, 5), 20, 120);
                sent += records.length;
                p.send(codec, records);
            }
            all.add(p.json());
        }
        return all;
    }

    /** Transactions that stay open over the hand-over: one to be committed, one to be aborted, with other records among theirs. */
    List<Object> open() throws Exception {
        List<RawProducer> two = List.of(new RawProducer(cluster.connection, "commit", "open", 0, "open-commit", 2),
            new RawProducer(cluster.connection, "abort", "open", 0, "open-abort", 1));
        try (KafkaProducer<byte[], byte[]> plain = cluster.producer(Map.of("enable.idempotence", false))) {
            for (RawProducer p : two) p.init();
            for (int i = 0; i < 5; i++)
                for (RawProducer p : two) {
                    send(plain, new ProducerRecord<>("open", 0, text.now(), text.key(), text.value(20, 60)));
                    plain.flush();
                    SimpleRecord[] records = text.records(2, 20, 100);
                    sent += records.length;
                    p.send(CompressionType.NONE, records);
                }
        }
        return new ArrayList<>(two.stream().map(RawProducer::json).toList());
    }
}

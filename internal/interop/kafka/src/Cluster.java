import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The running broker, and the clients of Kafka on it. */
final class Cluster implements AutoCloseable {
    final int port;
    final Admin admin;
    final Connection connection;

    /** Connects, and waits until every partition has a leader. */
    Cluster(int port) throws Exception {
        this.port = port;
        this.admin = Admin.create(Map.of("bootstrap.servers", "127.0.0.1:" + port));
        for (int i = 0; ; i++) {
            try {
                admin.describeCluster().nodes().get(5, TimeUnit.SECONDS);
                break;
            } catch (Exception e) {
                if (i == 20) throw e;
            }
        }
        settle();
        this.connection = new Connection(port);
    }

    /** Every topic, the internal ones too, by name. */
    SortedMap<String, TopicDescription> topics() throws Exception {
        Set<String> names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        return new TreeMap<>(admin.describeTopics(names).allTopicNames().get());
    }

    void settle() throws Exception {
        for (int i = 0; i < 300; i++) {
            try {
                boolean led = true;
                for (TopicDescription t : topics().values())
                    for (TopicPartitionInfo p : t.partitions()) led &= p.leader() != null && !p.leader().isEmpty();
                if (led) return;
            } catch (ExecutionException e) {
                // A topic listed a moment ago is not described yet.
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("partitions without a leader after 30 s");
    }

    /** Makes a topic with small segments and a dense index, so that a short run meets many of each. */
    void create(String name, int partitions, int segmentBytes, Map<String, String> more) throws Exception {
        Map<String, String> config = new TreeMap<>(Map.of("internal.segment.bytes", Integer.toString(segmentBytes), "segment.index.bytes", "1200",
            "index.interval.bytes", "200", "segment.ms", "2147483647000", "retention.ms", "-1", "file.delete.delay.ms", "100"));
        config.putAll(more);
        try {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(config))).all().get();
        } catch (ExecutionException e) {
            // Releases before 4.1 allow small segments under the public name.
            if (!(e.getCause() instanceof InvalidConfigurationException)) throw e;
            config.put("segment.bytes", config.remove("internal.segment.bytes"));
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(config))).all().get();
        }
        for (int i = 0; i < 100 && !admin.listTopics().names().get().contains(name); i++) Thread.sleep(50);
        settle();
    }

    void alterTopic(String name, String key, String value) throws Exception {
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, name),
            List.of(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)))).all().get();
    }

    /** A client of Kafka that produces; "more" wins over the defaults. */
    KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        Map<String, Object> c = new HashMap<>(Map.of("bootstrap.servers", "127.0.0.1:" + port, "max.block.ms", 30_000, "acks", "all"));
        c.putAll(more);
        return new KafkaProducer<>(c, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static byte[] utf8(String s) { return s == null ? null : s.getBytes(StandardCharsets.UTF_8); }

    @Override public void close() throws Exception {
        connection.close();
        admin.close(Duration.ofSeconds(5));
    }
}

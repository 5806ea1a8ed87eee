import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

/**
 * Transactions over the three partitions of "orders", interleaved: three of Kafka's clients with committed offsets in their
 * transactions, a raw producer of each protocol flow, and plain records in between; commits, aborts, all of them ended.
 */
final class Orders {
    private final Produce work;
    private final Text text;
    private final List<Side> sides = new ArrayList<>();

    Orders(Produce work) {
        this.work = work;
        this.text = work.text;
    }

    /** What both kinds of producers can do. */
    private abstract static class Side {
        boolean open;
        abstract void begin() throws Exception;
        abstract void send(int n) throws Exception;
        abstract void offsets() throws Exception;
        abstract void end(boolean commit) throws Exception;
        abstract void close() throws Exception;
    }

    private final class Java extends Side {
        final String id;
        final KafkaProducer<byte[], byte[]> producer;

        Java(String id, String codec) {
            this.id = id;
            producer = work.cluster.producer(Map.of("transactional.id", id, "compression.type", codec, "linger.ms", 0, "transaction.timeout.ms", 2147483646));
            producer.initTransactions();
        }

        @Override void begin() { producer.beginTransaction(); }
        @Override void send(int n) {
            for (int i = 0; i < n; i++)
                work.send(producer, new ProducerRecord<>("orders", text.between(0, 2), text.now(), text.key(), text.value(20, 140)));
            producer.flush();
        }
        @Override void offsets() {
            producer.sendOffsetsToTransaction(Map.of(new TopicPartition("codec", text.between(0, 4)), new OffsetAndMetadata(text.between(1, 400), "in " + id)),
                new ConsumerGroupMetadata("readers-" + id));
        }
        @Override void end(boolean commit) {
            if (commit) producer.commitTransaction();
            else producer.abortTransaction();
        }
        @Override void close() { producer.close(); }
    }

    private final class Raw extends Side {
        final RawProducer producer;

        Raw(String id, int partition, int flow) throws Exception {
            producer = new RawProducer(work.cluster.connection, id, "orders", partition, id, flow);
            producer.init();
        }

        @Override void begin() {}
        @Override void send(int n) throws Exception { producer.send(CompressionType.SNAPPY, text.records(n, 20, 140)); }
        @Override void offsets() {}
        @Override void end(boolean commit) throws Exception { producer.end(commit); }
        @Override void close() {}
    }

    void run(int steps) throws Exception {
        sides.add(new Java("java-a", "none"));
        sides.add(new Java("java-b", "lz4"));
        sides.add(new Java("java-c", "zstd"));
        sides.add(new Raw("raw-1", 0, 1));
        sides.add(new Raw("raw-2", 1, 2));
        try (KafkaProducer<byte[], byte[]> plain = work.cluster.producer(Map.of("linger.ms", 0))) {
            for (int i = 0; i < steps; i++) {
                step(sides.get(text.between(0, sides.size() - 1)));
                if (text.chance(0.25)) {
                    work.send(plain, new ProducerRecord<>("orders", text.between(0, 2), text.now(), text.key(), text.value(20, 140)));
                    plain.flush();
                }
            }
        }
        for (Side s : sides) {
            if (s.open) s.end(text.chance(0.5));
            s.close();
        }
        plainOffsets();
    }

    private void step(Side s) throws Exception {
        if (!s.open) {
            s.begin();
            s.open = true;
            s.send(text.between(1, 4));
        } else if (text.chance(0.4)) {
            s.end(text.chance(0.6));
            s.open = false;
        } else if (text.chance(0.3)) {
            s.offsets();
        } else {
            s.send(text.between(1, 4));
        }
    }

    private void plainOffsets() {
        try (KafkaConsumer<byte[], byte[]> c = work.consumer("readers-plain")) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (int p = 0; p < 5; p++) offsets.put(new TopicPartition("codec", p), new OffsetAndMetadata(text.between(1, 400), "plain"));
            c.commitSync(offsets);
        }
    }
}

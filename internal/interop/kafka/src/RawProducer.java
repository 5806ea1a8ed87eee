import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.Utils;

/**
 * A producer that sends batches as it is told to and whose whole state is five numbers and its last batch: written down, it can be
 * continued by another process, or by another engine. It writes to one partition. With a transactional id it follows either
 * protocol: flow 1 announces the partition and keeps its epoch, flow 2 (KIP-890) does neither.
 */
final class RawProducer {
    final Connection connection;
    final String name, topic, transactionalId;
    final int partition, flow;
    long id = -1;
    int epoch = -1, nextSequence;
    byte[] lastBatch;
    long lastBaseOffset = -1;
    private boolean added;

    RawProducer(Connection connection, String name, String topic, int partition, String transactionalId, int flow) {
        this.connection = connection;
        this.name = name;
        this.topic = topic;
        this.partition = partition;
        this.transactionalId = transactionalId;
        this.flow = flow;
    }

    /** Continues one that was written down. */
    static RawProducer of(Connection connection, Map<String, Object> m) {
        RawProducer p = new RawProducer(connection, (String) m.get("name"), (String) m.get("topic"), number(m, "partition").intValue(),
            (String) m.get("transactional_id"), number(m, "flow").intValue());
        p.id = number(m, "producer_id").longValue();
        p.epoch = number(m, "epoch").intValue();
        p.nextSequence = number(m, "next_sequence").intValue();
        p.lastBatch = Json.bytes((String) m.get("last_batch"));
        p.lastBaseOffset = number(m, "last_base_offset").longValue();
        p.added = true;
        return p;
    }

    private static Number number(Map<String, Object> m, String field) { return (Number) m.get(field); }

    Map<String, Object> json() {
        return Json.of("name", name, "topic", topic, "partition", partition, "transactional_id", transactionalId, "flow", flow,
            "producer_id", id, "epoch", epoch, "next_sequence", nextSequence, "last_base_offset", lastBaseOffset, "last_batch", Json.hex(lastBatch));
    }

    /** Asks the broker for a producer id; sequences begin at 0. */
    void init() throws Exception {
        if (transactionalId != null) connection.coordinator(1, transactionalId);
        InitProducerIdRequestData d = new InitProducerIdRequestData().setTransactionalId(transactionalId)
            .setTransactionTimeoutMs(transactionalId == null ? Integer.MAX_VALUE : 2147483646).setProducerId(-1).setProducerEpoch((short) -1);
        InitProducerIdResponseData r = connection.patient(d, flow == 2 ? 5 : 4, (InitProducerIdResponseData x) -> x.errorCode());
        Connection.must("InitProducerId", r.errorCode());
        id = r.producerId();
        epoch = r.producerEpoch();
        nextSequence = 0;
    }

    /** The broker's answer to one batch: error 0 and the base offset, or an error. */
    record Answer(int error, long baseOffset) {}

    /** Sends a batch with the next sequence, which must be taken. */
    void send(CompressionType codec, SimpleRecord... records) throws Exception {
        if (transactionalId != null && flow == 1 && !added) add();
        byte[] batch = batch(codec, epoch, nextSequence, records);
        Answer a = produce(batch);
        Connection.must("Produce " + name, a.error);
        added = true;
        lastBatch = batch;
        lastBaseOffset = a.baseOffset;
        nextSequence = (int) ((nextSequence + (long) records.length) & Integer.MAX_VALUE); // after 2147483647 comes 0
    }

    byte[] batch(CompressionType codec, int epoch, int sequence, SimpleRecord... records) {
        return Utils.toArray(MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V2, 0L, Compression.of(codec).build(), TimestampType.CREATE_TIME,
            id, (short) epoch, sequence, -1, transactionalId != null, records).buffer());
    }

    /** Sends bytes as a batch, whatever they are. */
    Answer produce(byte[] batch) throws Exception {
        ProduceRequestData d = new ProduceRequestData().setAcks((short) -1).setTimeoutMs(30_000).setTransactionalId(transactionalId);
        ProduceRequestData.TopicProduceData t = new ProduceRequestData.TopicProduceData().setName(topic);
        t.setPartitionData(new ArrayList<>(List.of(new ProduceRequestData.PartitionProduceData().setIndex(partition)
            .setRecords(MemoryRecords.readableRecords(ByteBuffer.wrap(batch))))));
        d.topicData().add(t);
        ProduceResponseData r = connection.patient(d, flow == 2 ? 12 : 11, (ProduceResponseData x) -> first(x).errorCode());
        return new Answer(first(r).errorCode(), first(r).baseOffset());
    }

    private static ProduceResponseData.PartitionProduceResponse first(ProduceResponseData r) {
        return r.responses().iterator().next().partitionResponses().get(0);
    }

    private void add() throws Exception {
        AddPartitionsToTxnRequestData d = new AddPartitionsToTxnRequestData().setV3AndBelowTransactionalId(transactionalId)
            .setV3AndBelowProducerId(id).setV3AndBelowProducerEpoch((short) epoch);
        d.v3AndBelowTopics().add(new AddPartitionsToTxnRequestData.AddPartitionsToTxnTopic().setName(topic).setPartitions(List.of(partition)));
        AddPartitionsToTxnResponseData r = connection.patient(d, 3, (AddPartitionsToTxnResponseData x) -> added(x));
        Connection.must("AddPartitionsToTxn " + name, added(r));
    }

    private static int added(AddPartitionsToTxnResponseData r) {
        return r.resultsByTopicV3AndBelow().iterator().next().resultsByPartition().iterator().next().partitionErrorCode();
    }

    /** Ends the transaction; by flow 2 the broker raises the epoch and sequences begin at 0 again. */
    void end(boolean commit) throws Exception {
        connection.coordinator(1, transactionalId);
        EndTxnRequestData d = new EndTxnRequestData().setTransactionalId(transactionalId).setProducerId(id).setProducerEpoch((short) epoch).setCommitted(commit);
        EndTxnResponseData r = connection.patient(d, flow == 2 ? 5 : 4, (EndTxnResponseData x) -> x.errorCode());
        Connection.must("EndTxn " + name, r.errorCode());
        if (flow == 2) {
            id = r.producerId();
            epoch = r.producerEpoch();
            nextSequence = 0;
        }
        added = false;
    }
}

import java.io.IOException;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.*;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.common.message.*;

/** Questions to the broker, asked by raw requests of one version each, and its answers. */
final class Ask {
    private final Connection connection;

    Ask(Connection connection) { this.connection = connection; }

    static String sha256(ByteBuffer b) {
        try {
            MessageDigest d = MessageDigest.getInstance("SHA-256");
            d.update(b.duplicate());
            return Json.hex(d.digest());
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    FetchResponseData.PartitionData fetch(String topic, int p, int isolation, long offset, int bytesMax) throws IOException {
        FetchRequestData d = new FetchRequestData().setMaxWaitMs(0).setMinBytes(0).setMaxBytes(Integer.MAX_VALUE).setIsolationLevel((byte) isolation)
            .setSessionEpoch(-1).setTopics(List.of(new FetchRequestData.FetchTopic().setTopic(topic).setPartitions(List.of(
                new FetchRequestData.FetchPartition().setPartition(p).setFetchOffset(offset).setPartitionMaxBytes(bytesMax)))));
        return connection.<FetchResponseData>call(d, 12).responses().get(0).partitions().get(0);
    }

    ListOffsetsResponseData.ListOffsetsPartitionResponse list(String topic, int p, int isolation, long timestamp) throws IOException {
        ListOffsetsRequestData d = new ListOffsetsRequestData().setReplicaId(-1).setIsolationLevel((byte) isolation)
            .setTopics(List.of(new ListOffsetsRequestData.ListOffsetsTopic().setName(topic).setPartitions(List.of(
                new ListOffsetsRequestData.ListOffsetsPartition().setPartitionIndex(p).setTimestamp(timestamp)))));
        return connection.<ListOffsetsResponseData>call(d, 9).topics().get(0).partitions().get(0);
    }

    /** What the partition's leader knows of each producer, by id. */
    List<Object> producers(String topic, int p) throws IOException {
        DescribeProducersRequestData d = new DescribeProducersRequestData();
        d.topics().add(new DescribeProducersRequestData.TopicRequest().setName(topic).setPartitionIndexes(List.of(p)));
        DescribeProducersResponseData.PartitionResponse r = connection.<DescribeProducersResponseData>call(d, 0).topics().get(0).partitions().get(0);
        Connection.must("DescribeProducers " + topic + "-" + p, r.errorCode());
        List<Object> all = new ArrayList<>();
        r.activeProducers().stream().sorted(Comparator.comparingLong(x -> x.producerId())).forEach(x -> all.add(Json.of("producer_id", x.producerId(),
            "epoch", x.producerEpoch(), "last_sequence", x.lastSequence(), "last_timestamp", x.lastTimestamp(), "coordinator_epoch", x.coordinatorEpoch(),
            "txn_start", x.currentTxnStartOffset())));
        return all;
    }

    /** End offset of each leader epoch, of none, and of one to come. */
    List<Object> epochs(String topic, int p, int current) throws IOException {
        List<Object> all = new ArrayList<>();
        for (int e = -1; e <= current + 1; e++) {
            OffsetForLeaderEpochRequestData d = new OffsetForLeaderEpochRequestData().setReplicaId(-1);
            d.topics().add(new OffsetForLeaderEpochRequestData.OffsetForLeaderTopic().setTopic(topic).setPartitions(List.of(
                new OffsetForLeaderEpochRequestData.OffsetForLeaderPartition().setPartition(p).setCurrentLeaderEpoch(-1).setLeaderEpoch(e))));
            var r = connection.<OffsetForLeaderEpochResponseData>call(d, 4).topics().iterator().next().partitions().get(0);
            all.add(Json.of("query", e, "error", r.errorCode(), "leader_epoch", r.leaderEpoch(), "end_offset", r.endOffset()));
        }
        return all;
    }

    /** State of every transactional id, by id. */
    List<Object> transactions() throws Exception {
        List<Object> all = new ArrayList<>();
        List<String> ids = connection.<ListTransactionsResponseData>patient(new ListTransactionsRequestData(), 1, r -> r.errorCode())
            .transactionStates().stream().map(x -> x.transactionalId()).sorted().toList();
        for (String id : ids) {
            connection.coordinator(1, id);
            var s = connection.<DescribeTransactionsResponseData>patient(new DescribeTransactionsRequestData().setTransactionalIds(List.of(id)), 0,
                r -> r.transactionStates().get(0).errorCode()).transactionStates().get(0);
            SortedSet<String> partitions = new TreeSet<>();
            for (var t : s.topics()) for (int p : t.partitions()) partitions.add(t.topic() + "-" + p);
            all.add(Json.of("transactional_id", id, "error", s.errorCode(), "state", s.transactionState(), "producer_id", s.producerId(), "epoch", s.producerEpoch(),
                "timeout_ms", s.transactionTimeoutMs(), "start_ms", s.transactionStartTimeMs(), "partitions", partitions));
        }
        return all;
    }

    /** Committed offsets of every group, by group. */
    List<Object> groupOffsets(Cluster c) throws Exception {
        List<Object> all = new ArrayList<>();
        for (String group : c.admin.listGroups().all().get().stream().map(GroupListing::groupId).sorted().toList()) {
            connection.coordinator(0, group);
            OffsetFetchRequestData d = new OffsetFetchRequestData().setRequireStable(false)
                .setGroups(List.of(new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(group).setTopics(null)));
            var g = connection.<OffsetFetchResponseData>patient(d, 9, r -> r.groups().get(0).errorCode()).groups().get(0);
            List<Object> offsets = new ArrayList<>();
            g.topics().stream().sorted(Comparator.comparing(t -> t.name())).forEach(t -> t.partitions().stream().sorted(Comparator.comparing(p -> p.partitionIndex()))
                .forEach(p -> offsets.add(Json.of("topic", t.name(), "partition", p.partitionIndex(), "error", p.errorCode(), "offset", p.committedOffset(),
                    "leader_epoch", p.committedLeaderEpoch(), "metadata", p.metadata()))));
            all.add(Json.of("group", group, "require_stable", false, "topics", "all", "error", g.errorCode(), "offsets", offsets));
        }
        return all;
    }
}

package main

// The records of groups of the consumer protocol with heartbeats (KIP-848),
// which kmsg does not have. Keys are of the old encoding, values of the
// flexible one, all version 0.

// memberKeyFields is the key of what is kept about one member.
type memberKeyFields struct {
	Type     int16  `json:"type"`
	Group    string `json:"group"`
	MemberID string `json:"member_id"`
}

type expressionKeyFields struct {
	Type       int16  `json:"type"`
	Group      string `json:"group"`
	Expression string `json:"regular_expression"`
}

func groupKey(b []byte) (any, error) {
	r := fieldReader{b: b}
	k := groupKeyFields{Type: r.int16(), Group: r.string()}
	return k, r.end()
}

func memberKey(b []byte) (any, error) {
	r := fieldReader{b: b}
	k := memberKeyFields{Type: r.int16(), Group: r.string(), MemberID: r.string()}
	return k, r.end()
}

func expressionKey(b []byte) (any, error) {
	r := fieldReader{b: b}
	k := expressionKeyFields{Type: r.int16(), Group: r.string(), Expression: r.string()}
	return k, r.end()
}

// consumerGroupFields is the value of type 3.
type consumerGroupFields struct {
	Version      int16  `json:"version"`
	Epoch        int32  `json:"epoch"`
	MetadataHash *int64 `json:"metadata_hash,omitempty"`
}

func consumerGroupValue(b []byte) (any, error) {
	r := fieldReader{b: b}
	v := consumerGroupFields{Version: r.int16(), Epoch: r.int32()}
	r.tags(func(tag uint32, field *fieldReader) {
		if tag == 0 {
			hash := field.int64()
			v.MetadataHash = &hash
		}
	})
	return v, r.end()
}

// groupPartitionsFields is the value of type 4.
type groupPartitionsFields struct {
	Version int16                 `json:"version"`
	Topics  []topicMetadataFields `json:"topics"`
}

type topicMetadataFields struct {
	TopicID       string                    `json:"topic_id"`
	Topic         string                    `json:"topic"`
	NumPartitions int32                     `json:"num_partitions"`
	Partitions    []partitionMetadataFields `json:"partitions"`
}

type partitionMetadataFields struct {
	Partition int32    `json:"partition"`
	Racks     []string `json:"racks"`
}

func groupPartitionsValue(b []byte) (any, error) {
	r := fieldReader{b: b}
	v := groupPartitionsFields{Version: r.int16()}
	v.Topics = compactArray(&r, func(r *fieldReader) topicMetadataFields {
		t := topicMetadataFields{TopicID: r.uuid(), Topic: r.compactString(), NumPartitions: r.int32()}
		t.Partitions = compactArray(r, func(r *fieldReader) partitionMetadataFields {
			p := partitionMetadataFields{Partition: r.int32(), Racks: compactArray(r, (*fieldReader).compactString)}
			r.tags(nil)
			return p
		})
		r.tags(nil)
		return t
	})
	r.tags(nil)
	return v, r.end()
}

// memberFields is the value of type 5.
type memberFields struct {
	Version            int16                  `json:"version"`
	InstanceID         *string                `json:"instance_id"`
	RackID             *string                `json:"rack_id"`
	ClientID           string                 `json:"client_id"`
	ClientHost         string                 `json:"client_host"`
	Topics             []string               `json:"subscribed_topics"`
	Expression         *string                `json:"subscribed_regular_expression"`
	RebalanceTimeoutMs int32                  `json:"rebalance_timeout_ms"`
	ServerAssignor     *string                `json:"server_assignor"`
	Classic            *classicProtocolFields `json:"classic"` // null unless it joined by the old protocol
}

type classicProtocolFields struct {
	SessionTimeoutMs int32            `json:"session_timeout_ms"`
	Protocols        []protocolFields `json:"protocols"`
}

type protocolFields struct {
	Name     string  `json:"name"`
	Metadata *string `json:"metadata"` // hex
}

func memberValue(b []byte) (any, error) {
	r := fieldReader{b: b}
	v := memberFields{
		Version:            r.int16(),
		InstanceID:         r.nullableCompactString(),
		RackID:             r.nullableCompactString(),
		ClientID:           r.compactString(),
		ClientHost:         r.compactString(),
		Topics:             compactArray(&r, (*fieldReader).compactString),
		Expression:         r.nullableCompactString(),
		RebalanceTimeoutMs: r.int32(),
		ServerAssignor:     r.nullableCompactString(),
	}
	r.tags(func(tag uint32, field *fieldReader) {
		if tag == 0 && field.int8() > 0 { // a tagged structure begins with 1, or is null
			v.Classic = classicProtocol(field)
		}
	})
	return v, r.end()
}

func classicProtocol(r *fieldReader) *classicProtocolFields {
	c := classicProtocolFields{SessionTimeoutMs: r.int32()}
	c.Protocols = compactArray(r, func(r *fieldReader) protocolFields {
		p := protocolFields{Name: r.compactString(), Metadata: hexText(r.compactBytes())}
		r.tags(nil)
		return p
	})
	r.tags(nil)
	return &c
}

// targetFields is the value of type 6.
type targetFields struct {
	Version         int16 `json:"version"`
	AssignmentEpoch int32 `json:"assignment_epoch"`
}

func targetValue(b []byte) (any, error) {
	r := fieldReader{b: b}
	v := targetFields{Version: r.int16(), AssignmentEpoch: r.int32()}
	r.tags(nil)
	return v, r.end()
}

type idPartitionsFields struct {
	TopicID    string  `json:"topic_id"`
	Partitions []int32 `json:"partitions"`
}

func idPartitions(r *fieldReader) idPartitionsFields {
	p := idPartitionsFields{TopicID: r.uuid(), Partitions: compactArray(r, (*fieldReader).int32)}
	r.tags(nil)
	return p
}

// targetMemberFields is the value of type 7.
type targetMemberFields struct {
	Version    int16                `json:"version"`
	Partitions []idPartitionsFields `json:"partitions"`
}

func targetMemberValue(b []byte) (any, error) {
	r := fieldReader{b: b}
	v := targetMemberFields{Version: r.int16(), Partitions: compactArray(&r, idPartitions)}
	r.tags(nil)
	return v, r.end()
}

// currentAssignmentFields is the value of type 8.
type currentAssignmentFields struct {
	Version             int16                `json:"version"`
	MemberEpoch         int32                `json:"member_epoch"`
	PreviousMemberEpoch int32                `json:"previous_member_epoch"`
	State               int8                 `json:"state"`
	Assigned            []idPartitionsFields `json:"assigned_partitions"`
	PendingRevocation   []idPartitionsFields `json:"partitions_pending_revocation"`
}

func currentAssignmentValue(b []byte) (any, error) {
	r := fieldReader{b: b}
	v := currentAssignmentFields{
		Version:             r.int16(),
		MemberEpoch:         r.int32(),
		PreviousMemberEpoch: r.int32(),
		State:               r.int8(),
		Assigned:            compactArray(&r, idPartitions),
		PendingRevocation:   compactArray(&r, idPartitions),
	}
	r.tags(nil)
	return v, r.end()
}

// expressionFields is the value of type 16.
type expressionFields struct {
	Version      int16    `json:"version"`
	Topics       []string `json:"topics"`
	TopicVersion int64    `json:"topics_version"`
	ResolvedMs   int64    `json:"resolved_ms"`
}

func expressionValue(b []byte) (any, error) {
	r := fieldReader{b: b}
	v := expressionFields{
		Version:      r.int16(),
		Topics:       compactArray(&r, (*fieldReader).compactString),
		TopicVersion: r.int64(),
		ResolvedMs:   r.int64(),
	}
	r.tags(nil)
	return v, r.end()
}

package main

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetKeyFields is the key of a committed offset in __consumer_offsets.
type offsetKeyFields struct {
	Type      int16  `json:"type"`
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// offsetValueFields is the value of a committed offset.
type offsetValueFields struct {
	Version     int16             `json:"version"`
	Offset      int64             `json:"offset"`
	LeaderEpoch *int32            `json:"leader_epoch,omitempty"` // from version 3 on
	Metadata    string            `json:"metadata"`
	CommitMs    int64             `json:"commit_ms"`
	ExpireMs    *int64            `json:"expire_ms,omitempty"` // version 1
	TopicID     string            `json:"topic_id,omitempty"`
	UnknownTags map[string]string `json:"unknown_tags,omitempty"`
}

func offsetKey(b []byte) (any, error) {
	k := kmsg.NewOffsetCommitKey()
	if err := k.ReadFrom(b); err != nil {
		return nil, err
	}
	return offsetKeyFields{Type: k.Version, Group: k.Group, Topic: k.Topic, Partition: k.Partition}, nil
}

func offsetValue(b []byte) (any, error) {
	v := kmsg.NewOffsetCommitValue()
	if err := v.ReadFrom(b); err != nil {
		return nil, err
	}
	f := offsetValueFields{
		Version:     v.Version,
		Offset:      v.Offset,
		Metadata:    v.Metadata,
		CommitMs:    v.CommitTimestamp,
		TopicID:     topicIDText(v.TopicID),
		UnknownTags: unknownTags(&v.UnknownTags),
	}
	if v.Version >= 3 {
		f.LeaderEpoch = &v.LeaderEpoch
	}
	if v.Version == 1 {
		f.ExpireMs = &v.ExpireTimestamp
	}
	return f, nil
}

// groupKeyFields is the key of what __consumer_offsets holds about a group as
// a whole.
type groupKeyFields struct {
	Type  int16  `json:"type"`
	Group string `json:"group"`
}

// classicGroupFields is a group of the protocol with JoinGroup and SyncGroup.
type classicGroupFields struct {
	Version      int16                 `json:"version"`
	ProtocolType string                `json:"protocol_type"`
	Generation   int32                 `json:"generation"`
	Protocol     *string               `json:"protocol"`
	Leader       *string               `json:"leader"`
	StateMs      *int64                `json:"state_ms,omitempty"` // from version 2 on
	Members      []classicMemberFields `json:"members"`
}

type classicMemberFields struct {
	MemberID           string  `json:"member_id"`
	InstanceID         *string `json:"instance_id"`
	ClientID           string  `json:"client_id"`
	ClientHost         string  `json:"client_host"`
	RebalanceTimeoutMs int32   `json:"rebalance_timeout_ms"`
	SessionTimeoutMs   int32   `json:"session_timeout_ms"`
	Subscription       any     `json:"subscription"` // hex if the protocol is not consumer
	Assignment         any     `json:"assignment"`
}

func classicGroupKey(b []byte) (any, error) {
	k := kmsg.NewGroupMetadataKey()
	if err := k.ReadFrom(b); err != nil {
		return nil, err
	}
	return groupKeyFields{Type: k.Version, Group: k.Group}, nil
}

func classicGroupValue(b []byte) (any, error) {
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(b); err != nil {
		return nil, err
	}
	f := classicGroupFields{
		Version:      v.Version,
		ProtocolType: v.ProtocolType,
		Generation:   v.Generation,
		Protocol:     v.Protocol,
		Leader:       v.Leader,
		Members:      []classicMemberFields{},
	}
	if v.Version >= 2 {
		f.StateMs = &v.CurrentStateTimestamp
	}
	consumer := v.ProtocolType == "consumer"
	for _, m := range v.Members {
		f.Members = append(f.Members, classicMemberFields{
			MemberID:           m.MemberID,
			InstanceID:         m.InstanceID,
			ClientID:           m.ClientID,
			ClientHost:         m.ClientHost,
			RebalanceTimeoutMs: m.RebalanceTimeoutMillis,
			SessionTimeoutMs:   m.SessionTimeoutMillis,
			Subscription:       subscription(m.Subscription, consumer),
			Assignment:         assignment(m.Assignment, consumer),
		})
	}
	return f, nil
}

type topicPartitionsFields struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

type subscriptionFields struct {
	Topics          []string                `json:"topics"`
	UserData        *string                 `json:"user_data"` // hex
	OwnedPartitions []topicPartitionsFields `json:"owned_partitions"`
	Generation      int32                   `json:"generation"`
	RackID          *string                 `json:"rack_id"`
}

// subscription decodes what a member of a consumer group asked for; any other
// protocol's is hex, as is what cannot be decoded.
func subscription(b []byte, consumer bool) any {
	v := kmsg.NewConsumerMemberMetadata()
	if !consumer || v.ReadFrom(b) != nil {
		return hexText(b)
	}
	f := subscriptionFields{
		Topics:          orEmpty(v.Topics),
		UserData:        hexText(v.UserData),
		OwnedPartitions: []topicPartitionsFields{},
		Generation:      v.Generation,
		RackID:          v.Rack,
	}
	for _, p := range v.OwnedPartitions {
		f.OwnedPartitions = append(f.OwnedPartitions, topicPartitionsFields{p.Topic, orEmpty(p.Partitions)})
	}
	return f
}

type assignmentFields struct {
	Partitions []topicPartitionsFields `json:"partitions"`
	UserData   *string                 `json:"user_data"` // hex
}

// assignment decodes what a member of a consumer group was given.
func assignment(b []byte, consumer bool) any {
	v := kmsg.NewConsumerMemberAssignment()
	if !consumer || v.ReadFrom(b) != nil {
		return hexText(b)
	}
	f := assignmentFields{Partitions: []topicPartitionsFields{}, UserData: hexText(v.UserData)}
	for _, t := range v.Topics {
		f.Partitions = append(f.Partitions, topicPartitionsFields{t.Topic, orEmpty(t.Partitions)})
	}
	return f
}

// orEmpty is s, but never nil, so that JSON has [] and not null.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// unknownTags are tagged fields of a newer Kafka, as hex by number.
func unknownTags(tags *kmsg.Tags) map[string]string {
	if tags.Len() == 0 {
		return nil
	}
	all := make(map[string]string, tags.Len())
	tags.Each(func(number uint32, value []byte) {
		all[strconv.FormatUint(uint64(number), 10)] = *hexText(append([]byte{}, value...))
	})
	return all
}

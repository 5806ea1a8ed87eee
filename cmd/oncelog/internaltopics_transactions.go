package main

import (
	"encoding/hex"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
)

// transactionKeyFields is the key of __transaction_state.
type transactionKeyFields struct {
	Type            int16  `json:"type"`
	TransactionalID string `json:"transactional_id"`
}

// transactionValueFields is the value of __transaction_state. The members
// with a pointer are there from version 1 on.
type transactionValueFields struct {
	Version            int16             `json:"version"`
	ProducerID         int64             `json:"producer_id"`
	Epoch              int16             `json:"epoch"`
	TimeoutMs          int32             `json:"timeout_ms"`
	State              string            `json:"state"`
	Partitions         []string          `json:"partitions"` // topic-partition; null and [] differ, as in the record
	UpdatedMs          int64             `json:"updated_ms"`
	StartMs            int64             `json:"start_ms"`
	PreviousProducerID *int64            `json:"previous_producer_id,omitempty"`
	NextProducerID     *int64            `json:"next_producer_id,omitempty"`
	ClientVersion      *int16            `json:"client_transaction_version,omitempty"`
	NextEpoch          *int16            `json:"next_epoch,omitempty"`
	UnknownTags        map[string]string `json:"unknown_tags,omitempty"` // number: hex
}

func transactionKey(b []byte) (any, error) {
	k := kmsg.NewTxnMetadataKey()
	if err := k.ReadFrom(b); err != nil {
		return nil, err
	}
	return transactionKeyFields{Type: k.Version, TransactionalID: k.TransactionalID}, nil
}

func transactionValue(b []byte) (any, error) {
	v := kmsg.NewTxnMetadataValue()
	if err := v.ReadFrom(b); err != nil {
		return nil, err
	}
	f := transactionValueFields{
		Version:     v.Version,
		ProducerID:  v.ProducerID,
		Epoch:       v.ProducerEpoch,
		TimeoutMs:   v.TimeoutMillis,
		State:       v.State.String(),
		UpdatedMs:   v.LastUpdateTimestamp,
		StartMs:     v.StartTimestamp,
		UnknownTags: unknownTags(&v.UnknownTags),
	}
	if v.Topics != nil {
		f.Partitions = []string{}
	}
	for _, t := range v.Topics {
		for _, p := range t.Partitions {
			f.Partitions = append(f.Partitions, topic.Partition{Topic: t.Topic, Index: p}.String())
		}
	}
	if v.Version >= 1 {
		f.PreviousProducerID = &v.PreviousProducerID
		f.NextProducerID = &v.NextProducerID
		f.ClientVersion = &v.ClientTransactionVersion
		f.NextEpoch = &v.NextProducerEpoch
	}
	return f, nil
}

// topicIDText is a topic id as Kafka writes it, "" for none.
func topicIDText(id [16]byte) string {
	if id == ([16]byte{}) {
		return ""
	}
	return checkpoint.TopicID(id).String()
}

// hexText is bytes as hex, nil for null.
func hexText(b []byte) *string {
	if b == nil {
		return nil
	}
	text := hex.EncodeToString(b)
	return &text
}

package main

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/internal/topic"
)

// recordDecoder tells the meaning of the keys and values of a topic.
type recordDecoder uint8

const (
	decodeNothing      recordDecoder = iota
	decodeTransactions               // __transaction_state
	decodeOffsets                    // __consumer_offsets
)

// Names of the decoders on the command line.
const (
	decoderAuto         = "auto"
	decoderNone         = "none"
	decoderTransactions = "transactions"
	decoderOffsets      = "offsets"
)

// decoderOfTopic is the one of Kafka's own topics, nothing for others.
func decoderOfTopic(name string) recordDecoder {
	switch name {
	case topic.TransactionState:
		return decodeTransactions
	case topic.ConsumerOffsets:
		return decodeOffsets
	}
	return decodeNothing
}

// decoderOfName is the decoder that the command line asks for; auto is true
// if the topic's name decides.
func decoderOfName(name string) (d recordDecoder, auto bool, err error) {
	switch name {
	case decoderAuto:
		return decodeNothing, true, nil
	case decoderNone:
		return decodeNothing, false, nil
	case decoderTransactions:
		return decodeTransactions, false, nil
	case decoderOffsets:
		return decodeOffsets, false, nil
	}
	return 0, false, fmt.Errorf("decoder %q is unknown: want %s, %s, %s or %s",
		name, decoderAuto, decoderNone, decoderTransactions, decoderOffsets)
}

// Why a record of an internal topic is not decoded. Readers of these topics
// skip such records: a newer Kafka wrote them.
var (
	errUnknownType    = errors.New("record type is unknown to this program")
	errUnknownVersion = errors.New("version of the value is unknown to this program")
)

// undecoded stands in the output for a key or value that has no meaning.
type undecoded struct {
	Type    *int16 `json:"type,omitempty"`    // of a key
	Version *int16 `json:"version,omitempty"` // of a value
	Error   string `json:"error"`
}

// decode gives the meaning of key and value for encoding/json, nil for what is
// null or has none. Bytes that cannot be decoded give an undecoded.
func (d recordDecoder) decode(key, value []byte) (k, v any) {
	if d == decodeNothing || key == nil {
		return nil, nil
	}
	number, err := leadingNumber(key)
	if err != nil {
		return undecoded{Error: err.Error()}, nil
	}
	kind, known := recordKindOf(d, number)
	if !known {
		return undecoded{Type: &number, Error: errUnknownType.Error()}, nil
	}
	if k, err = kind.key(key); err != nil {
		k = undecoded{Type: &number, Error: err.Error()}
	}
	if value == nil {
		return k, nil
	}
	version, err := leadingNumber(value)
	switch {
	case err != nil:
		return k, undecoded{Error: err.Error()}
	case version < 0 || version > kind.versionMax:
		return k, undecoded{Version: &version, Error: errUnknownVersion.Error()}
	}
	if v, err = kind.value(value); err != nil {
		v = undecoded{Version: &version, Error: err.Error()}
	}
	return k, v
}

// leadingNumber is the int16 that every key and value begins with: of a key
// the type of the record, of a value its version.
func leadingNumber(b []byte) (int16, error) {
	if len(b) < 2 {
		return 0, fmt.Errorf("%d bytes are too few for a version", len(b))
	}
	return int16(binary.BigEndian.Uint16(b)), nil
}

// recordKind is one kind of record of an internal topic.
type recordKind struct {
	versionMax int16 // newest version of the value that value reads
	key, value func([]byte) (any, error)
}

// recordKindOf finds the kind of record by the number its key begins with.
func recordKindOf(d recordDecoder, number int16) (recordKind, bool) {
	if d == decodeTransactions {
		return recordKind{1, transactionKey, transactionValue}, number == 0
	}
	switch number {
	case 0, 1:
		return recordKind{4, offsetKey, offsetValue}, true
	case 2:
		return recordKind{4, classicGroupKey, classicGroupValue}, true
	case 3:
		return recordKind{0, groupKey, consumerGroupValue}, true
	case 4:
		return recordKind{0, groupKey, groupPartitionsValue}, true
	case 5:
		return recordKind{0, memberKey, memberValue}, true
	case 6:
		return recordKind{0, groupKey, targetValue}, true
	case 7:
		return recordKind{0, memberKey, targetMemberValue}, true
	case 8:
		return recordKind{0, memberKey, currentAssignmentValue}, true
	case 16:
		return recordKind{0, expressionKey, expressionValue}, true
	}
	return recordKind{}, false
}

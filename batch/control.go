package batch

import (
	"encoding/binary"
	"fmt"
)

// ControlType tells the kinds of control records apart. A reader skips the
// ones it does not know.
type ControlType int16

const (
	ControlAbort        ControlType = iota // ends a transaction: its records never happened
	ControlCommit                          // ends a transaction: its records count
	ControlLeaderChange                    // only in the log of Kafka's controllers, as all below
	ControlSnapshotHeader
	ControlSnapshotFooter
	ControlKRaftVersion
	ControlKRaftVoters
)

var controlNames = [...]string{
	"ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS",
}

// String is the name Kafka uses, and UNKNOWN with the number for other types.
func (t ControlType) String() string {
	if t >= 0 && int(t) < len(controlNames) {
		return controlNames[t]
	}
	return fmt.Sprintf("UNKNOWN(%d)", int16(t))
}

// Sizes of a marker. A longer key or value is read as if it ended there: later
// versions only add fields.
const (
	controlKeySize  = 4 // version, type
	markerValueSize = 6 // version, coordinator epoch
	markerSize      = HeaderSize + 17
)

// Marker is the control record that ends a transaction in one partition.
type Marker struct {
	Producer         Producer
	Commit           bool // false: abort
	CoordinatorEpoch int32
	Timestamp        int64 // ms: of the coordinator, or of the log if the topic says so
}

// ReadControl decodes the key of a control record. The error is
// ErrInvalidRecord, wrapped, for a key that is too short or has a negative
// version; the type may be one that has no name.
func ReadControl(key []byte) (version int16, t ControlType, err error) {
	if len(key) < controlKeySize {
		return 0, 0, fmt.Errorf("control key of %d bytes: %w", len(key), ErrInvalidRecord)
	}
	version = int16(binary.BigEndian.Uint16(key))
	if version < 0 {
		return 0, 0, fmt.Errorf("control key of version %d: %w", version, ErrInvalidRecord)
	}
	return version, ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// ReadMarker gives the marker in b, which Parse returned. ok is false if there
// is none: b holds data, an emptied control batch as compaction leaves it, or
// a control record of another type. An error is an ErrInvalidRecord or, from a
// codec, an ErrCorrupt.
func ReadMarker(b Batch) (m Marker, ok bool, err error) {
	if !b.IsControl() || b.RecordCount() == 0 {
		return Marker{}, false, nil
	}
	var records Records
	defer records.Close()
	records.Reset(b)
	if !records.Next() {
		return Marker{}, false, records.Err()
	}
	r := records.Record()
	_, t, err := ReadControl(r.Key)
	if err != nil {
		return Marker{}, false, err
	}
	if t != ControlAbort && t != ControlCommit {
		return Marker{}, false, nil
	}
	if len(r.Value) < markerValueSize {
		return Marker{}, false, fmt.Errorf("marker of %d bytes: %w", len(r.Value), ErrInvalidRecord)
	}
	if version := int16(binary.BigEndian.Uint16(r.Value)); version < 0 {
		return Marker{}, false, fmt.Errorf("marker of version %d: %w", version, ErrInvalidRecord)
	}
	return Marker{
		Producer:         b.Producer(),
		Commit:           t == ControlCommit,
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(r.Value[2:])),
		Timestamp:        r.Timestamp,
	}, true, nil
}

// AppendMarker appends the batch of m to dst, 78 bytes, with base offset 0 and
// no leader epoch: the log stamps both.
func AppendMarker(dst []byte, m Marker) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	t := ControlAbort
	if m.Commit {
		t = ControlCommit
	}
	dst = append(dst,
		2*(markerSize-HeaderSize-1), // length, a varint as all until the value
		0, 0, 0,                     // attributes, timestamp delta, offset delta
		2*controlKeySize, 0, 0, 0, byte(t), // key: version 0, type
		2*markerValueSize, 0, 0, 0, 0, 0, 0, // value: version 0, coordinator epoch
		0) // no headers
	b := Batch(dst[start:])
	binary.BigEndian.PutUint32(b[len(b)-5:], uint32(m.CoordinatorEpoch))
	putHeader(b, &Header{
		LeaderEpoch:   None,
		Attributes:    attrControl | attrTransactional,
		BaseTimestamp: m.Timestamp,
		MaxTimestamp:  m.Timestamp,
		Producer:      m.Producer,
		BaseSequence:  None,
		RecordCount:   1,
	})
	return dst
}

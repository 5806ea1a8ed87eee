package txn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/oncelog/oncelog/internal/topic"
)

// The records of __transaction_state: Kafka's, in the version that its brokers
// write since 4.0. The key names the transactional id; no value means that it is
// forgotten.

const (
	keyVersion   = 0
	valueVersion = 1
)

// Tagged fields of a value.
const (
	tagPrevID        = 0
	tagNextID        = 1
	tagClientVersion = 2
	tagNextEpoch     = 3 // of a two-phase prepare, which there is not yet
	// tagLastEpoch is our own: without it nobody could tell after a restart the
	// retry of an initialisation from a producer that it fenced. Kafka skips tags
	// that it does not know.
	tagLastEpoch = 10_000
)

// errVersion: a record of a version that is not known, which is skipped: it is
// left over from an upgrade that was taken back.
var errVersion = errors.New("version not known")

// AppendKey appends the key of a transactional id's records.
func AppendKey(dst []byte, id string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, keyVersion)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(id)))
	return append(dst, id...)
}

// ReadKey reads a key.
func ReadKey(b []byte) (id string, err error) {
	r := reader{b: b}
	if v := r.int16(); r.err == nil && v != keyVersion {
		return "", fmt.Errorf("key: %w: %d", errVersion, v)
	}
	id = string(r.take(int(r.int16())))
	return id, r.end("key")
}

// AppendValue appends the value that says t.
func AppendValue(dst []byte, t *Transaction) []byte {
	dst = binary.BigEndian.AppendUint16(dst, valueVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Producer.ID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(t.Producer.Epoch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(t.TimeoutMs))
	dst = append(dst, byte(t.State))
	dst = appendPartitions(dst, t)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.UpdatedMs))
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.StartMs))
	return appendTags(dst, t)
}

// appendPartitions appends the partitions, sorted, by topic; null where there is
// no transaction.
func appendPartitions(dst []byte, t *Transaction) []byte {
	if t.State == Empty {
		return append(dst, 0)
	}
	topics := 0
	for i := range t.Partitions {
		if i == 0 || t.Partitions[i].Topic != t.Partitions[i-1].Topic {
			topics++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(topics)+1)
	for rest := t.Partitions; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(p topic.Partition) bool { return p.Topic != rest[0].Topic })
		if n < 0 {
			n = len(rest)
		}
		dst = binary.AppendUvarint(dst, uint64(len(rest[0].Topic))+1)
		dst = append(dst, rest[0].Topic...)
		dst = binary.AppendUvarint(dst, uint64(n)+1)
		for _, p := range rest[:n] {
			dst = binary.BigEndian.AppendUint32(dst, uint32(p.Index))
		}
		dst = append(dst, 0) // tags of the topic
		rest = rest[n:]
	}
	return dst
}

// appendTags appends the tagged fields that differ from their defaults.
func appendTags(dst []byte, t *Transaction) []byte {
	type tag struct {
		number uint64
		size   int
		value  int64
	}
	var tags [5]tag
	n := 0
	add := func(number uint64, size int, value, usual int64) {
		if value != usual {
			tags[n], n = tag{number, size, value}, n+1
		}
	}
	add(tagPrevID, 8, t.PrevID, -1)
	add(tagNextID, 8, t.NextID, -1)
	add(tagClientVersion, 2, int64(t.ClientVersion), 0)
	add(tagNextEpoch, 2, int64(t.NextEpoch), -1)
	add(tagLastEpoch, 2, int64(t.LastEpoch), int64(t.usualLastEpoch()))
	dst = binary.AppendUvarint(dst, uint64(n))
	for _, g := range tags[:n] {
		dst = binary.AppendUvarint(dst, g.number)
		dst = binary.AppendUvarint(dst, uint64(g.size))
		if g.size == 8 {
			dst = binary.BigEndian.AppendUint64(dst, uint64(g.value))
		} else {
			dst = binary.BigEndian.AppendUint16(dst, uint16(g.value))
		}
	}
	return dst
}

// usualLastEpoch is what LastEpoch is taken for where a record does not say it.
func (t *Transaction) usualLastEpoch() int16 {
	if t.ClientVersion == 2 && (t.State.prepared() || t.State == CompleteCommit || t.State == CompleteAbort) && t.Producer.Epoch > 0 {
		return t.Producer.Epoch - 1
	}
	return -1
}

// ReadValue reads a value of any version that Kafka has written.
func ReadValue(b []byte) (Transaction, error) {
	r := reader{b: b}
	version := r.int16()
	if r.err == nil && (version < 0 || version > valueVersion) {
		return Transaction{}, fmt.Errorf("value: %w: %d", errVersion, version)
	}
	t := Transaction{PrevID: -1, NextID: -1, NextEpoch: -1}
	t.Producer.ID, t.Producer.Epoch = r.int64(), r.int16()
	t.TimeoutMs, t.State = r.int32(), State(r.int8())
	if r.err == nil && !t.State.logged() {
		return Transaction{}, fmt.Errorf("value: state %d", t.State)
	}
	r.flexible = version > 0
	r.partitions(&t)
	t.UpdatedMs, t.StartMs = r.int64(), r.int64()
	last := int64(math.MinInt64)
	if r.flexible {
		r.tags(func(number uint64, field *reader) {
			switch number {
			case tagPrevID:
				t.PrevID = field.int64()
			case tagNextID:
				t.NextID = field.int64()
			case tagClientVersion:
				t.ClientVersion = field.int16()
			case tagNextEpoch:
				t.NextEpoch = field.int16()
			case tagLastEpoch:
				last = int64(field.int16())
			}
		})
	}
	if err := r.end("value"); err != nil {
		return Transaction{}, err
	}
	t.LastEpoch = t.usualLastEpoch()
	if last != math.MinInt64 {
		t.LastEpoch = int16(last)
	}
	return t, nil
}

// reader reads fields off the front. After the first error all it gives is zero.
type reader struct {
	b        []byte
	flexible bool // compact lengths and tagged fields
	err      error
}

var errShort = errors.New("it ends too early")

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		if r.err == nil {
			r.err = errShort
		}
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.err = errShort
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads the length of an array whose elements have at least size bytes;
// -1: null.
func (r *reader) count(size int) int {
	n := int64(r.compact())
	if !r.flexible {
		n = int64(r.int32())
	}
	if n > int64(len(r.b)/size) && r.err == nil {
		r.err = errShort
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// compact reads a compact length, if lengths are compact.
func (r *reader) compact() int {
	if !r.flexible {
		return 0
	}
	v := r.uvarint()
	if v > math.MaxInt32 && r.err == nil {
		r.err = errShort
	}
	return int(v) - 1
}

func (r *reader) string() string {
	n := r.compact()
	if !r.flexible {
		n = int(r.int16())
	}
	return string(r.take(n))
}

// tags reads tagged fields; one that field does not read to its end is an error.
func (r *reader) tags(field func(number uint64, field *reader)) {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		number, size := r.uvarint(), r.uvarint()
		if size > uint64(len(r.b)) && r.err == nil {
			r.err = errShort
		}
		if r.err != nil {
			return
		}
		f := reader{b: r.take(int(size))}
		field(number, &f)
		if f.err != nil {
			r.err = f.err
		}
	}
}

func (r *reader) partitions(t *Transaction) {
	const topicBytesMin, indexBytes = 3, 4
	for range max(r.count(topicBytesMin), 0) {
		name := r.string()
		for range max(r.count(indexBytes), 0) {
			t.Partitions = append(t.Partitions, topic.Partition{Topic: name, Index: r.int32()})
		}
		if r.flexible {
			r.tags(func(uint64, *reader) {})
		}
		if r.err != nil {
			t.Partitions = nil
			return
		}
	}
	slices.SortFunc(t.Partitions, topic.Partition.Compare)
	t.Partitions = slices.Compact(t.Partitions)
}

// end tells what was wrong, bytes that are left over too.
func (r *reader) end(what string) error {
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes are left over", len(r.b))
	}
	if r.err != nil {
		return fmt.Errorf("%s: %w", what, r.err)
	}
	return nil
}

package groupoffsets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/oncelog/oncelog/batch"
)

// The records of __consumer_offsets: Kafka's. The key begins with a version,
// which says what the record is about; no value means that it is gone.
//
//	key 0, 1   string group, string topic, int32 partition      an offset
//	key 2      string group                                     a group of the classic protocol
//	key 3      string group                                     a group of KIP-848
//	key 5      string group, string member                      a member of such a group
//
// The other keys that Kafka has are of no concern here, and of newer ones nothing
// is known: both are skipped.

// keyVersion is what a key begins with.
type keyVersion int16

// The versions that are read or written here.
const (
	keyOffsetOld keyVersion = 0
	keyOffset    keyVersion = 1
	keyClassic   keyVersion = 2
	keyConsumer  keyVersion = 3
	keyMember    keyVersion = 5

	// What else Kafka keeps of a group of KIP-848 and of each of its members: only
	// deleted with it.
	keyTopics            keyVersion = 4
	keyAssignmentEpoch   keyVersion = 6
	keyTargetAssignment  keyVersion = 7
	keyCurrentAssignment keyVersion = 8
)

// Versions of values.
const (
	valueVersion        = 4 // of an offset, as Kafka 4.1 writes it
	valueVersionExpires = 1 // of one that has its own time to expire
	valueVersionEpoch   = 3 // leader epochs from here on
	classicVersionMax   = 4
	classicVersionState = 2 // the time of the state from here on
	flexibleFrom        = 4 // compact lengths and tagged fields, of both
)

// key is a decoded key. The slices alias what was decoded.
type key struct {
	version   keyVersion
	group     []byte
	topic     []byte // of an offset
	member    []byte // of a member
	partition int32  // of an offset
}

// isOffset tells whether the record is about an offset.
func (k *key) isOffset() bool { return k.version == keyOffset || k.version == keyOffsetOld }

// readKey reads a key; known is false for one that is of no concern.
func readKey(b []byte) (k key, known bool, err error) {
	r := reader{b: b}
	k.version = keyVersion(r.int16())
	switch {
	case r.err != nil:
	case k.isOffset():
		k.group, k.topic, k.partition = r.string(), r.string(), r.int32()
	case k.version == keyClassic, k.version == keyConsumer:
		k.group = r.string()
	case k.version == keyMember:
		k.group, k.member = r.string(), r.string()
	default:
		return key{}, false, nil
	}
	if err := r.end("key"); err != nil {
		return key{}, false, err
	}
	return k, true, nil
}

// appendOffsetKey appends the key of an offset.
func appendOffsetKey(dst []byte, group, topic string, partition int32) []byte {
	dst = appendGroupKey(dst, keyOffset, group)
	dst = appendString(dst, topic)
	return binary.BigEndian.AppendUint32(dst, uint32(partition))
}

// appendGroupKey appends the key of a record about a group as a whole.
func appendGroupKey(dst []byte, v keyVersion, group string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(v))
	return appendString(dst, group)
}

func appendString(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

// fields are what the value of an offset says. The slice aliases what was decoded.
type fields struct {
	offset      int64
	leaderEpoch int32 // batch.None: not known
	metadata    []byte
	commitMs    int64
	expireMs    int64 // batch.None: by the retention of groups
}

// readValue reads the value of an offset, of any version that Kafka has written.
func readValue(b []byte) (fields, error) {
	r := reader{b: b}
	version := r.int16()
	if r.err == nil && (version < 0 || version > valueVersion) {
		return fields{}, fmt.Errorf("value: version %d is not known", version)
	}
	r.flexible = version >= flexibleFrom
	f := fields{offset: r.int64(), leaderEpoch: batch.None, expireMs: batch.None}
	if version >= valueVersionEpoch {
		f.leaderEpoch = r.int32()
	}
	f.metadata = r.string()
	f.commitMs = r.int64()
	if version == valueVersionExpires {
		f.expireMs = r.int64()
	}
	if r.flexible {
		r.skipTags()
	}
	return f, r.end("value")
}

// appendValue appends the value that says c, committed at a time in ms.
func appendValue(dst []byte, c *Commit, at int64) []byte {
	if c.ExpireMs > 0 {
		dst = binary.BigEndian.AppendUint16(dst, valueVersionExpires)
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.Offset))
		dst = appendString(dst, c.Metadata)
		dst = binary.BigEndian.AppendUint64(dst, uint64(at))
		return binary.BigEndian.AppendUint64(dst, uint64(c.ExpireMs))
	}
	dst = binary.BigEndian.AppendUint16(dst, valueVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Offset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.LeaderEpoch))
	dst = binary.AppendUvarint(dst, uint64(len(c.Metadata))+1)
	dst = append(dst, c.Metadata...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(at))
	return append(dst, 0) // no tags
}

// classicFields are what is needed of the value of a classic group.
type classicFields struct {
	protocolType string
	generation   int32
	stateMs      int64 // since when it is in its state; batch.None: not known
	members      int
}

// readClassic reads the value of a classic group up to its members.
func readClassic(b []byte) (classicFields, error) {
	r := reader{b: b}
	version := r.int16()
	if r.err == nil && (version < 0 || version > classicVersionMax) {
		return classicFields{}, fmt.Errorf("group: version %d is not known", version)
	}
	r.flexible = version >= flexibleFrom
	c := classicFields{protocolType: string(r.string()), generation: r.int32(), stateMs: batch.None}
	r.nullable() // protocol
	r.nullable() // leader
	if version >= classicVersionState {
		c.stateMs = r.int64()
	}
	const memberBytesMin = 5
	c.members = r.count(memberBytesMin)
	if r.err != nil {
		return classicFields{}, fmt.Errorf("group: %w", r.err)
	}
	return c, nil
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
		r.fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = errShort
	}
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
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// compact reads a compact length; -1: null.
func (r *reader) compact() int {
	v := r.uvarint()
	if v > math.MaxInt32 {
		r.fail()
		return 0
	}
	return int(v) - 1
}

func (r *reader) length() int {
	if r.flexible {
		return r.compact()
	}
	return int(r.int16())
}

func (r *reader) string() []byte { return r.take(r.length()) }

func (r *reader) nullable() {
	if n := r.length(); n >= 0 {
		r.take(n)
	}
}

// count reads the length of an array whose elements have at least size bytes.
func (r *reader) count(size int) int {
	n := 0
	if r.flexible {
		n = r.compact()
	} else {
		n = int(r.int32())
	}
	if n > len(r.b)/size {
		r.fail()
	}
	if r.err != nil {
		return 0
	}
	return max(n, 0)
}

// skipTags reads over tagged fields: of an offset there is the id of its topic,
// which Kafka does not write yet.
func (r *reader) skipTags() {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		r.uvarint()
		size := r.uvarint()
		if size > uint64(len(r.b)) {
			r.fail()
			return
		}
		r.take(int(size))
	}
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

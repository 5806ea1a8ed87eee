package producerstate

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/invariant"
)

// A snapshot is Kafka's file <offset>.snapshot, version 1, big-endian:
//
//	0         2         6         10
//	+---------+---------+---------+----------------------+
//	| version | crc     | entries | entry, 46 bytes each | ...
//	| int16 1 | 32C of  | int32   |                      |
//	|         | [6, end)|         |                      |
//	+---------+---------+---------+----------------------+
//
//	0             8       10         14       22        26       34        38         46
//	+-------------+-------+----------+--------+---------+--------+---------+----------+
//	| producer id | epoch | last     | last   | offset  | time-  | coordi- | first of |
//	|             |       | sequence | offset | delta   | stamp  | nator   | open     |
//	|             |       |          |        |         |        | epoch   | txn      |
//	+-------------+-------+----------+--------+---------+--------+---------+----------+
const (
	snapshotVersion    = 1
	snapshotHeaderSize = 10
	snapshotEntrySize  = 46

	posSnapshotCRC   = 2
	posSnapshotCount = 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot is a snapshot under way. It shows the table as it was when it
// began, however much is applied meanwhile. Next and Discard are called under
// the lock of the table.
type Snapshot struct {
	table *Table
	count uint32 // entries when it began: handles 1…count
	next  uint32 // handle that is encoded next
	begun bool   // the header is written

	// kept are entries that changed before their turn, encoded as they were;
	// changed has a bit for each handle that needs no encoding any more.
	kept    [][]byte
	changed []uint64
}

// keptBlock is the size of the pieces in which changed entries are kept.
const keptBlock = 256 * snapshotEntrySize

// BeginSnapshot starts a snapshot of the table as it is now. It copies
// nothing, but from here on Apply and Expire keep what they change until it
// is written. At most one can be under way; Next to its end, or Discard, ends it.
func (t *Table) BeginSnapshot() *Snapshot {
	invariant.Check(t.snapshot == nil, "two snapshots of one table")
	n := t.entries.n
	s := &Snapshot{table: t, count: n, next: 1, changed: make([]uint64, (n+63)/64)}
	t.snapshot = s
	return s
}

// Next appends the next piece of the file, from about n entries, to dst. With
// the last piece, more is false and the snapshot is over; Seal then completes
// the file, without the lock.
func (s *Snapshot) Next(dst []byte, n int) (out []byte, more bool) {
	if s.table == nil {
		return dst, false
	}
	if !s.begun {
		s.begun = true
		dst = binary.BigEndian.AppendUint16(dst, snapshotVersion)
		dst = binary.BigEndian.AppendUint32(dst, 0) // Seal
		dst = binary.BigEndian.AppendUint32(dst, s.count)
	}
	for len(s.kept) > 0 && n > 0 {
		block := s.kept[len(s.kept)-1]
		s.kept = s.kept[:len(s.kept)-1]
		dst = append(dst, block...)
		n -= len(block) / snapshotEntrySize
	}
	for ; n > 0 && s.next <= s.count; n-- {
		if !s.isChanged(s.next) {
			dst = appendEntry(dst, s.table.entries.at(s.next))
		}
		s.next++
	}
	if s.next <= s.count || len(s.kept) > 0 {
		return dst, true
	}
	s.Discard()
	return dst, false
}

// Discard ends a snapshot that is not wanted any more; after its end it does
// nothing.
func (s *Snapshot) Discard() {
	if s.table != nil {
		s.table.snapshot = nil
		s.table, s.kept, s.changed = nil, nil, nil
	}
}

// Seal completes a file that consists of all pieces of a snapshot.
func Seal(file []byte) {
	binary.BigEndian.PutUint32(file[posSnapshotCRC:], crc32.Checksum(file[posSnapshotCount:], castagnoli))
}

// AppendSnapshot appends the whole snapshot file of the table to dst. It may
// be used while another snapshot is under way.
func (t *Table) AppendSnapshot(dst []byte) []byte {
	start := len(dst)
	dst = slices.Grow(dst, snapshotHeaderSize+t.Len()*snapshotEntrySize)
	s := Snapshot{table: t, count: t.entries.n, next: 1, changed: make([]uint64, (t.entries.n+63)/64)}
	under := t.snapshot
	dst, _ = s.Next(dst, t.Len()+1)
	t.snapshot = under
	Seal(dst[start:])
	return dst
}

func (s *Snapshot) isChanged(handle uint32) bool {
	return s.changed[(handle-1)/64]>>((handle-1)%64)&1 != 0
}

// preserve is called before an entry changes, moves or goes.
func (t *Table) preserve(handle uint32) {
	s := t.snapshot
	if s == nil || handle < s.next || handle > s.count || s.isChanged(handle) {
		return
	}
	s.changed[(handle-1)/64] |= 1 << ((handle - 1) % 64)
	last := len(s.kept) - 1
	if last < 0 || len(s.kept[last]) == keptBlock {
		s.kept = append(s.kept, make([]byte, 0, keptBlock))
		last++
	}
	s.kept[last] = appendEntry(s.kept[last], t.entries.at(handle))
}

func (s *Snapshot) bytes() int { return len(s.kept)*keptBlock + 8*len(s.changed) }

func appendEntry(dst []byte, e *entry) []byte {
	i := e.info()
	dst = binary.BigEndian.AppendUint64(dst, uint64(i.Producer.ID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(i.Producer.Epoch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(i.LastSequence))
	dst = binary.BigEndian.AppendUint64(dst, uint64(i.LastOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(i.OffsetDelta))
	dst = binary.BigEndian.AppendUint64(dst, uint64(i.LastTimestamp))
	dst = binary.BigEndian.AppendUint32(dst, uint32(i.CoordinatorEpoch))
	return binary.BigEndian.AppendUint64(dst, uint64(i.TxnFirst))
}

// decodeEntry reads one entry; b has its size.
func decodeEntry(b []byte) Info {
	i := Info{
		Producer: batch.Producer{
			ID:    int64(binary.BigEndian.Uint64(b)),
			Epoch: int16(binary.BigEndian.Uint16(b[8:])),
		},
		LastSequence:     int32(binary.BigEndian.Uint32(b[10:])),
		LastOffset:       int64(binary.BigEndian.Uint64(b[14:])),
		OffsetDelta:      int32(binary.BigEndian.Uint32(b[22:])),
		LastTimestamp:    int64(binary.BigEndian.Uint64(b[26:])),
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(b[34:])),
		TxnFirst:         int64(binary.BigEndian.Uint64(b[38:])),
	}
	if i.LastOffset >= 0 {
		i.Batches = 1
	}
	if i.TxnFirst < 0 {
		i.TxnFirst = batch.None
	}
	return i
}

// ReadSnapshot decodes a snapshot file, in its order. Errors are of type
// *SnapshotError.
func ReadSnapshot(b []byte) ([]Info, error) {
	if err := checkSnapshot(b); err != nil {
		return nil, err
	}
	infos := make([]Info, 0, (len(b)-snapshotHeaderSize)/snapshotEntrySize)
	for pos := snapshotHeaderSize; pos < len(b); pos += snapshotEntrySize {
		info := decodeEntry(b[pos:])
		if reason := implausible(&info); reason != "" {
			return nil, &SnapshotError{Pos: int64(pos), Reason: reason}
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// checkSnapshot checks all that is outside the entries.
func checkSnapshot(b []byte) error {
	if len(b) < snapshotHeaderSize {
		return &SnapshotError{Pos: int64(len(b)), Reason: fmt.Sprintf("%d bytes, a header has %d", len(b), snapshotHeaderSize)}
	}
	if v := int16(binary.BigEndian.Uint16(b)); v != snapshotVersion {
		return &SnapshotError{Reason: fmt.Sprintf("version %d, only %d is known", v, snapshotVersion)}
	}
	want, got := binary.BigEndian.Uint32(b[posSnapshotCRC:]), crc32.Checksum(b[posSnapshotCount:], castagnoli)
	if want != got {
		return &SnapshotError{Pos: posSnapshotCRC, Reason: fmt.Sprintf("checksum %#08x, of the bytes %#08x", want, got)}
	}
	count := int32(binary.BigEndian.Uint32(b[posSnapshotCount:]))
	if size := int64(len(b) - snapshotHeaderSize); int64(count)*snapshotEntrySize != size {
		return &SnapshotError{Pos: posSnapshotCount, Reason: fmt.Sprintf("%d entries in %d bytes", count, size)}
	}
	return nil
}

// implausible tells what no producer state can be.
func implausible(i *Info) string {
	switch {
	case i.Producer.ID < 0:
		return fmt.Sprintf("producer id %d", i.Producer.ID)
	case i.LastOffset < batch.None:
		return fmt.Sprintf("producer %d has last offset %d", i.Producer.ID, i.LastOffset)
	case i.LastOffset >= 0 && (i.OffsetDelta < 0 || int64(i.OffsetDelta) > i.LastOffset):
		return fmt.Sprintf("producer %d has last offset %d in a batch of delta %d", i.Producer.ID, i.LastOffset, i.OffsetDelta)
	}
	return ""
}

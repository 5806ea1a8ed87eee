package index

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// TxnEntrySize is the size of an entry of .txnindex, in bytes.
const TxnEntrySize = 34

const (
	posTxnVersion    = 0
	posTxnProducerID = 2
	posTxnFirst      = 10
	posTxnLast       = 18
	posTxnLastStable = 26

	txnVersion = 0
)

// AbortedTxn is one aborted transaction, as one partition saw it.
type AbortedTxn struct {
	ProducerID int64
	First      int64 // offset of its first record here
	Last       int64 // offset of the ABORT marker
	LastStable int64 // the last stable offset when the marker was appended
}

// Txn is the transaction index of one segment: the aborted transactions whose
// marker lies in it. Append is for one goroutine at a time, everything else
// for any number.
type Txn struct {
	base int64
	file file

	// Written before the entry that calls for it is published, so a reader
	// that saw the entry sees it (see type file). A view's are written under
	// verify.
	minima    minima
	unordered atomic.Bool // LastStable or, in a view, Last is not in order: every search scans

	verify sync.Once // of a view: its minima are built and its entries checked
	defect error     // of a view: what verify found
}

// NewTxn makes an empty index, which grows, for the segment with that base
// offset.
func NewTxn(base int64) *Txn {
	return &Txn{base: base, file: file{entrySize: TxnEntrySize}}
}

// ViewTxn makes an index over the bytes of a finished file, without copying
// them: b must stay as it is while the index is in use. A torn entry at the
// end is left out. It looks at the first and the last entry only: an unknown
// version, a marker below the segment or a transaction without records is a
// *FormatError. Check looks at all.
func ViewTxn(base int64, b []byte) (*Txn, error) {
	x := NewTxn(base)
	x.file.seal(b)
	n := x.Len()
	if n == 0 {
		return x, nil
	}
	for _, i := range [...]int{0, n - 1} {
		if err := x.check(i, AbortedTxn{Last: base - 1, LastStable: math.MinInt64}); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// LoadTxn makes an index that grows from the bytes of a file whose end is not
// known: that of an active segment, or one left by a crash. It takes entries
// from the front while they are sound, in order, and have their marker below
// endOffset, and leaves out the rest. It copies: b is free afterwards.
func LoadTxn(base int64, b []byte, endOffset int64) *Txn {
	x := NewTxn(base)
	for ; len(b) >= TxnEntrySize; b = b[TxnEntrySize:] {
		e := decodeTxn(b)
		if versionOf(b) != txnVersion || e.Last >= endOffset || x.Append(e) != nil {
			break
		}
	}
	return x
}

// Append adds an entry behind the last one. Its marker must lie above that of
// the last entry and not below the segment's base offset, and the transaction
// must have begun below its marker: ErrUnordered. A view refuses with
// ErrReadOnly.
func (x *Txn) Append(t AbortedTxn) error {
	if x.file.sealed {
		return ErrReadOnly
	}
	last, ok := x.Last()
	if !ok {
		last = AbortedTxn{Last: x.base - 1, LastStable: math.MinInt64}
	}
	if t.Last <= last.Last || t.First >= t.Last {
		return fmt.Errorf("append aborted transaction [%d, %d] behind one that ends at %d: %w", t.First, t.Last, last.Last, ErrUnordered)
	}
	if t.LastStable < last.LastStable {
		// A log does not produce this, but an answer that misses a
		// transaction would be worse than a slow one.
		x.unordered.Store(true)
	}
	b := x.file.slot()
	binary.BigEndian.PutUint16(b[posTxnVersion:], txnVersion)
	binary.BigEndian.PutUint64(b[posTxnProducerID:], uint64(t.ProducerID))
	binary.BigEndian.PutUint64(b[posTxnFirst:], uint64(t.First))
	binary.BigEndian.PutUint64(b[posTxnLast:], uint64(t.Last))
	binary.BigEndian.PutUint64(b[posTxnLastStable:], uint64(t.LastStable))
	x.minima.add(&x.file, x.file.len())
	x.file.publish()
	return nil
}

// Overlapping appends to dst the transactions that end at or above from and
// begin below upper, in the order of their markers. complete says that an
// entry was met whose last stable offset is at or above upper: all below upper
// was decided then, so later segments need not be asked, and the search ends
// with that entry.
//
// The cost is that of a binary search and of what is found. Neither many
// aborted transactions outside the range nor a long one that spans many others
// make it grow. It allocates only if dst lacks room; the first call on a view
// reads all of it once.
func (x *Txn) Overlapping(dst []AbortedTxn, from, upper int64) (_ []AbortedTxn, complete bool) {
	n := x.Len()
	x.verified()
	if x.unordered.Load() {
		return x.scan(dst, n, from, upper)
	}
	lo := x.file.searchInt64(n, posTxnLast, from)
	end := x.file.searchInt64(n, posTxnLastStable, upper)
	if complete = end < n; complete {
		end++ // the entry that ends the search can itself overlap
	}
	for i := lo; ; i++ {
		i = x.minima.nextBelow(&x.file, i, end, n, upper)
		if i >= end {
			return dst, complete
		}
		dst = append(dst, x.At(i))
	}
}

// scan is Overlapping for entries in whatever order.
func (x *Txn) scan(dst []AbortedTxn, n int, from, upper int64) (_ []AbortedTxn, complete bool) {
	for i := range n {
		t := x.At(i)
		if t.Last >= from && t.First < upper {
			dst = append(dst, t)
		}
		if t.LastStable >= upper {
			return dst, true
		}
	}
	return dst, false
}

// MinFirst is the smallest first offset of all entries, math.MaxInt64 if there
// is none.
func (x *Txn) MinFirst() int64 {
	n := x.Len()
	x.verified()
	return x.minima.lowest(&x.file, n)
}

// Len is the number of entries.
func (x *Txn) Len() int { return x.file.len() }

// At is entry i, counted from 0; i must be below a Len seen before.
func (x *Txn) At(i int) AbortedTxn { return decodeTxn(x.file.entry(i)) }

// Last is the last entry, false if there is none.
func (x *Txn) Last() (AbortedTxn, bool) {
	n := x.Len()
	if n == 0 {
		return AbortedTxn{}, false
	}
	return x.At(n - 1), true
}

// Truncated is a new index, which grows, with the transactions whose marker
// lies below offset.
func (x *Txn) Truncated(offset int64) *Txn {
	return LoadTxn(x.base, x.AppendTo(nil, 0), offset)
}

// AppendTo appends the file's bytes of the entries [from, Len) to dst.
func (x *Txn) AppendTo(dst []byte, from int) []byte { return x.file.appendTo(dst, from) }

// Check looks at every entry: a *FormatError names the first that has an
// unknown version or is out of order. Only a view can have one. On a view it
// does the work that the first search would have to do.
func (x *Txn) Check() error {
	x.verified()
	return x.defect
}

// verified reads a view once: it builds the minima and notes what is wrong.
func (x *Txn) verified() {
	if !x.file.sealed {
		return
	}
	x.verify.Do(func() {
		before := AbortedTxn{Last: x.base - 1, LastStable: math.MinInt64}
		for i := range x.Len() {
			x.minima.add(&x.file, i)
			if err := x.check(i, before); err != nil && x.defect == nil {
				x.defect = err
				x.unordered.Store(true)
			}
			before = x.At(i)
		}
	})
}

// check tells whether entry i is sound and may stand behind the entry before.
func (x *Txn) check(i int, before AbortedTxn) error {
	b := x.file.entry(i)
	pos := int64(i) * TxnEntrySize
	if v := versionOf(b); v != txnVersion {
		return &FormatError{kindTxn, pos, fmt.Sprintf("version %d is unknown", v)}
	}
	t := decodeTxn(b)
	if t.Last <= before.Last || t.First >= t.Last || t.LastStable < before.LastStable {
		return &FormatError{kindTxn, pos, fmt.Sprintf("transaction [%d, %d], last stable %d, behind one that ends at %d, last stable %d",
			t.First, t.Last, t.LastStable, before.Last, before.LastStable)}
	}
	return nil
}

func versionOf(b []byte) int16 { return int16(binary.BigEndian.Uint16(b[posTxnVersion:])) }

func decodeTxn(b []byte) AbortedTxn {
	return AbortedTxn{
		ProducerID: int64(binary.BigEndian.Uint64(b[posTxnProducerID:])),
		First:      int64(binary.BigEndian.Uint64(b[posTxnFirst:])),
		Last:       int64(binary.BigEndian.Uint64(b[posTxnLast:])),
		LastStable: int64(binary.BigEndian.Uint64(b[posTxnLastStable:])),
	}
}

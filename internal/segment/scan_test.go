package segment

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/oncelog/oncelog/batch"
)

// walk gives the positions of the batches that a scanner finds.
func walk(r io.ReaderAt, pos, end int64, check bool) (found []int64, at int64, err error) {
	s := NewScanner(r, pos, end, check)
	defer s.Close()
	for s.Next() {
		found = append(found, s.Pos())
	}
	return found, s.Pos(), s.Err()
}

func positions(batches []batch.Batch) (all []int64) {
	pos := int64(0)
	for _, b := range batches {
		all = append(all, pos)
		pos += int64(len(b))
	}
	return all
}

// TestScanner walks batches small and larger than its buffer, from any of them.
func TestScanner(t *testing.T) {
	batches := history(0, 50)
	next := batches[49].NextOffset()
	for _, size := range []int{scanBytes - 100, scanBytes, 3*scanBytes + 17, 5, scanBytes / 2, scanBytes / 2, scanBytes / 2, 10} {
		batches = append(batches, record(next, 1, 5, size))
		next++
	}
	whole := join(batches)
	all := positions(batches)
	for i, pos := range all {
		s := NewScanner(bytes.NewReader(whole), pos, int64(len(whole)), true)
		for j := i; s.Next(); j++ {
			if s.Pos() != all[j] || !bytes.Equal(s.Batch(), batches[j]) {
				t.Fatalf("from %d: batch %d at %d", i, j, s.Pos())
			}
		}
		if s.Err() != nil || s.Pos() != int64(len(whole)) {
			t.Fatalf("from %d: ended at %d with %v", i, s.Pos(), s.Err())
		}
		s.Close()
		s.Close()
	}
}

// TestScannerTorn ends a file at every byte of a batch.
func TestScannerTorn(t *testing.T) {
	batches := history(1<<60, 5) // no batch begins with a zero
	whole := join(batches)
	all := positions(batches)
	for end := range len(whole) {
		n := 0
		for n < len(all) && int(all[n])+len(batches[n]) <= end {
			n++
		}
		for _, file := range [][]byte{whole, whole[:end]} { // what lies behind the end does not count
			found, at, err := walk(bytes.NewReader(file), 0, int64(end), true)
			torn, is := errors.AsType[*TornError](err)
			if len(found) != n || at != all[n] {
				t.Fatalf("end %d: %v, stopped at %d, want %v", end, found, at, all[:n])
			}
			if atBatch := int64(end) == all[n]; atBatch != (err == nil) || !atBatch && (!is || torn.Pos != all[n] || !errors.Is(err, batch.ErrShort)) {
				t.Fatalf("end %d: %v", end, err)
			}
		}
		// The file is shorter than it was said to be.
		if _, at, err := walk(bytes.NewReader(whole[:end]), 0, int64(len(whole)), true); at != all[n] || !errors.Is(err, batch.ErrShort) {
			t.Fatalf("file of %d bytes: stopped at %d with %v", end, at, err)
		}
	}
}

// TestScannerDamage flips every bit of a batch: with checks the walk stops
// there, but for what lies outside of the checksum; without, only framing
// counts.
func TestScannerDamage(t *testing.T) {
	batches := history(0, 3)
	whole := join(batches)
	start := len(batches[0])
	for i := range len(batches[1]) * 8 {
		damaged := bytes.Clone(whole)
		damaged[start+i/8] ^= 1 << (i % 8)
		found, at, err := walk(bytes.NewReader(damaged), 0, int64(len(whole)), true)
		switch field := i / 8; {
		case field < 8 && i%8 != 7 || field == 0: // base offset: any that is not negative will do
			if field > 0 && (err != nil || len(found) != 3) {
				t.Fatalf("bit %d: %v, %v", i, found, err)
			}
		case field < 8 || field >= 12 && field < 16: // base offset, leader epoch
		default:
			if torn, is := errors.AsType[*TornError](err); !is || torn.Pos != int64(start) || at != int64(start) || len(found) != 1 {
				t.Fatalf("bit %d: %v, %v", i, found, err)
			}
		}
		walk(bytes.NewReader(damaged), 0, int64(len(whole)), false)
	}
}

func TestScannerZeros(t *testing.T) {
	whole := append(join(history(0, 3)), make([]byte, 5000)...)
	if found, _, err := walk(bytes.NewReader(whole), 0, int64(len(whole)), true); !errors.Is(err, ErrZeros) || len(found) != 3 {
		t.Errorf("%v, %v", found, err)
	}
	whole[len(whole)-1] = 1 // the head is all zero: what follows is for the caller to look at
	if _, _, err := walk(bytes.NewReader(whole), 0, int64(len(whole)), true); !errors.Is(err, ErrZeros) {
		t.Errorf("%v", err)
	}
}

// failing is a file whose device fails.
type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, syscall.EIO }

func TestScannerFails(t *testing.T) {
	if _, _, err := walk(failing{}, 0, 1000, true); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
	if torn, is := errors.AsType[*TornError](error(syscall.EIO)); is {
		t.Errorf("%v", torn)
	}
}

// FuzzScanner: whatever the bytes are, a walk ends, and takes no memory that
// the bytes do not fill.
func FuzzScanner(f *testing.F) {
	f.Add(join(history(0, 3)))
	f.Add(append(join(history(7, 2)), make([]byte, 100)...))
	r := rand.New(rand.NewPCG(1, 2))
	garbage := make([]byte, 200)
	for i := range garbage {
		garbage[i] = byte(r.Uint32())
	}
	garbage[16], garbage[8] = 2, 0x7f // a batch of 2 GiB
	f.Add(garbage)
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, check := range []bool{true, false} {
			s := NewScanner(bytes.NewReader(content), 0, int64(len(content)), check)
			sum := 0
			for s.Next() {
				if !bytes.Equal(content[s.Pos():s.Pos()+int64(len(s.Batch()))], s.Batch()) {
					t.Error("other bytes than those of the file")
				}
				sum += len(s.Batch())
			}
			if cap(s.large) > len(content) {
				t.Errorf("%d bytes of memory for %d", cap(s.large), len(content))
			}
			if torn, is := errors.AsType[*TornError](s.Err()); int(s.Pos()) != sum || s.Err() != nil && (!is || torn.Pos != s.Pos()) || s.Err() == nil && sum != len(content) {
				t.Errorf("ended at %d of %d with %v", s.Pos(), len(content), s.Err())
			}
			s.Close()
		}
	})
}

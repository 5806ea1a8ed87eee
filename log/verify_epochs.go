package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/vfs"
)

// epochCheck compares the leader epochs of batches with those of the file.
type epochCheck struct {
	entries []checkpoint.EpochEntry // nil: not known
	guessed bool                    // the last one is of a batch above the recovery point, not of the file
	last    int32                   // of the batch before
	told    [2]int32                // epoch and right epoch of the last complaint, which a row of batches shares
}

// readEpochs reads the file of leader epochs.
func (v *verifier) readEpochs() error {
	path := filepath.Join(v.o.Dir, EpochsName)
	b, err := vfs.ReadFile(v.o.FS, path, smallFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		if len(v.segments) > 0 {
			v.find(Finding{SeverityNote, FindingEpochs, path, -1, -1, "there is no file of leader epochs: they are compared with each other only"})
		}
		return nil
	}
	if err != nil && !errors.Is(err, vfs.ErrTooLarge) {
		return err
	}
	var entries []checkpoint.EpochEntry
	if err == nil {
		entries, err = checkpoint.ReadEpochs(b)
	}
	if err != nil {
		v.find(Finding{SeverityDamage, FindingEpochs, path, -1, -1, err.Error()})
		return nil
	}
	for i, e := range entries {
		if i > 0 && (e.Epoch <= entries[i-1].Epoch || e.Start <= entries[i-1].Start) || e.Epoch < 0 || e.Start < 0 {
			v.find(Finding{SeverityDamage, FindingEpochs, path, -1, e.Start,
				fmt.Sprintf("epoch %d from offset %d is out of order", e.Epoch, e.Start)})
			return nil
		}
	}
	v.epochs.entries = entries
	return nil
}

// check verifies the leader epoch of a batch against the epochs of the
// partition: exactly, or below their first entry against its neighbours.
func (c *epochCheck) check(v *verifier, b batch.Batch, at position) {
	epoch, before := b.LeaderEpoch(), c.last
	c.last = epoch
	n := len(c.entries)
	if n > 0 && b.BaseOffset() >= v.point && epoch > c.entries[n-1].Epoch && b.BaseOffset() >= c.entries[n-1].Start {
		// Above the recovery point the file may lack an epoch; recovery
		// enters it.
		c.entries = append(c.entries[:n:n], checkpoint.EpochEntry{Epoch: epoch, Start: b.BaseOffset()})
		c.guessed = true
		return
	}
	// Epochs begin with a batch, but for the first one of a log that lost its
	// head inside a batch: so the last offset tells it.
	i := n
	for i > 0 && c.entries[i-1].Start > b.LastOffset() {
		i--
	}
	switch {
	case c.guessed && i == n && n > 1 && epoch == c.entries[n-2].Epoch:
		v.find(at.finding(SeverityDamage, FindingEpochs, "the batch has leader epoch %d behind one of epoch %d", epoch, c.entries[n-1].Epoch))
		c.entries, c.guessed = c.entries[:n-1], false
	case i > 0 && epoch != c.entries[i-1].Epoch:
		c.complain(v, at, epoch, c.entries[i-1].Epoch, "%s says %d", EpochsName, c.entries[i-1].Epoch)
		c.last = before
	case i == 0 && n > 0 && epoch > c.entries[0].Epoch:
		c.complain(v, at, epoch, c.entries[0].Epoch, "epoch %d begins later", c.entries[0].Epoch)
		c.last = before
	case epoch < before:
		c.complain(v, at, epoch, before, "one before it has epoch %d", before)
	default:
		c.told = [2]int32{}
	}
}

// complain tells of a wrong epoch, once for a row of batches.
func (c *epochCheck) complain(v *verifier, at position, epoch, right int32, format string, args ...any) {
	if pair := [2]int32{epoch, right}; c.told != pair {
		c.told = pair
		v.find(at.finding(SeverityDamage, FindingEpochs, "the batch has leader epoch %d, "+format, append([]any{epoch}, args...)...))
	}
}

// end compares the epochs with the log end.
func (c *epochCheck) end(v *verifier, end int64) {
	if n := len(c.entries); n > 0 && c.entries[n-1].Start > end {
		severity := SeverityNote
		if v.o.Clean {
			severity = SeverityDamage
		}
		v.find(Finding{severity, FindingEpochs, filepath.Join(v.o.Dir, EpochsName), -1, c.entries[n-1].Start,
			fmt.Sprintf("epoch %d begins at offset %d, behind the log end %d", c.entries[n-1].Epoch, c.entries[n-1].Start, end)})
	}
}

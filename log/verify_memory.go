package log

import (
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/internal/segment"
)

// layPieces has the log read as it will be once recovery has written what journal
// and tail hold.
func (v *verifier) layPieces() error {
	if v.o.Clean || len(v.o.Pieces)+len(v.o.References) == 0 {
		return nil
	}
	l := &Log{o: v.o, env: &segment.Environment{}}
	err := l.layPieces()
	if other, ok := errors.AsType[*ForeignWriterError](err); ok {
		v.find(Finding{SeverityDamage, FindingMemory, other.File, other.Pos, other.Offset,
			"another program wrote where our batch belongs: " + other.Reason})
		return nil
	}
	if err == nil {
		v.o.FS = l.o.FS
	}
	return err
}

// checkJournaled compares the log end with what the journal vouches for.
func (v *verifier) checkJournaled() {
	end, vouched := v.report.LogEnd, v.o.JournalEnd
	if v.o.Clean || !v.o.Journaled {
		return
	}
	switch {
	case end < vouched:
		v.find(Finding{SeverityDamage, FindingMemory, v.o.Dir, -1, end,
			fmt.Sprintf("the journal vouches for offsets up to %d, the log ends at %d", vouched, end)})
	case end > max(vouched, v.o.Points.RecoveryPoint):
		v.find(Finding{SeverityNote, FindingMemory, v.o.Dir, -1, max(vouched, v.o.Points.RecoveryPoint),
			fmt.Sprintf("batches up to offset %d are not in the journal: nobody was told that they are safe, and recovery cuts them", end)})
	}
}

package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/internal/vfs"
)

// readFiles looks at everything in the directory that is no segment.
func (v *verifier) readFiles() error {
	entries, err := v.o.FS.ReadDir(v.o.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		text := fileText(e)
		if n, ok := segment.ParseName(e.Name()); text == "" && ok && n.Kind != segment.KindLog && n.Kind != segment.KindSnapshot && !v.hasSegment(n.Offset) {
			text = "an index without its log; opening the log removes it"
		}
		if text != "" {
			v.find(Finding{SeverityNote, FindingFile, filepath.Join(v.o.Dir, e.Name()), -1, -1, text})
		}
	}
	if err := v.readEpochs(); err != nil {
		return err
	}
	path := filepath.Join(v.o.Dir, checkpoint.PartitionMetadataFile)
	b, err := vfs.ReadFile(v.o.FS, path, smallFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = checkpoint.ReadPartitionMetadata(b)
	}
	if bad := (*checkpoint.FormatError)(nil); errors.As(err, &bad) {
		v.find(Finding{SeverityDamage, FindingFile, path, -1, -1, err.Error()})
		return nil
	}
	return err
}

func (v *verifier) hasSegment(base int64) bool {
	return slices.ContainsFunc(v.segments, func(f segment.SegmentFiles) bool { return f.Base == base })
}

// fileText is what there is to tell of a name in the directory.
func fileText(e fs.DirEntry) string {
	name := e.Name()
	parsed, ours := segment.ParseName(name)
	switch {
	case e.IsDir():
		return "a directory, which belongs to no log"
	case ours && parsed.Suffix == segment.SuffixSwap:
		return "part of an unfinished compaction; opening the log completes or undoes it"
	case ours && parsed.Suffix != segment.SuffixNone, name == segment.PreparedName:
		return "left over; opening the log removes it"
	case ours, name == EpochsName, name == checkpoint.PartitionMetadataFile:
		return ""
	case name == EpochsName+".tmp", name == checkpoint.PartitionMetadataFile+".tmp", strings.HasSuffix(name, "index.tmp"), strings.HasSuffix(name, ".snapshot.tmp"):
		return "an unfinished write; nobody reads it"
	case strings.HasSuffix(name, ".cut"):
		return "a torn tail that a recovery cut and kept"
	}
	return "belongs to no log"
}

// end is the log end that was found.
func (v *verifier) end() int64 {
	if len(v.segments) == 0 {
		return v.o.Points.LogStart
	}
	return v.follow.next
}

// conclude compares the log end with what was recorded of it, and decides on
// what depends on whether the partition was compacted.
func (v *verifier) conclude() {
	r, end := &v.report, v.end()
	r.LogEnd, r.Compacted = end, v.compacted
	if !v.follow.unsure {
		v.concludePoints(end)
		v.epochs.end(v, end)
		v.concludeSnapshots(end)
	}
	v.settleGap(false)
	for _, f := range v.excused {
		if !v.compacted {
			v.find(f)
		}
	}
	r.Compacted = v.compacted
}

// concludePoints compares the recorded points with the log end.
func (v *verifier) concludePoints(end int64) {
	p := v.o.Points
	severity, text := SeverityNote, "recovery corrects it"
	if v.o.Clean {
		severity, text = SeverityDamage, "what lies between is lost"
	}
	beyond := func(what string, offset int64) {
		if offset > end {
			v.find(Finding{severity, FindingPoints, v.o.Dir, -1, offset, fmt.Sprintf("the recorded %s is %d, the log ends at %d: %s", what, offset, end, text)})
		}
	}
	beyond("recovery point", p.RecoveryPoint)
	beyond("high watermark", p.HighWatermark)
	if p.LogStart > end {
		v.find(Finding{max(severity, SeverityWarning), FindingPoints, v.o.Dir, -1, p.LogStart,
			fmt.Sprintf("the recorded log start is %d, the log ends at %d: opening the log deletes all of it", p.LogStart, end)})
	}
}

// concludeSnapshots tells whether the producer state at the log end is known.
func (v *verifier) concludeSnapshots(end int64) {
	newest := v.replay.newest
	first := v.o.Points.LogStart
	if len(v.segments) > 0 {
		first = v.segments[0].Base
	}
	switch {
	case v.memoryEnd >= 0 || end == 0:
	case newest < 0 && first > 0 && v.replay.removed:
	case newest < 0 && first > 0:
		v.find(Finding{SeverityDamage, FindingSnapshot, v.o.Dir, -1, end,
			fmt.Sprintf("there is no usable snapshot and the log before offset %d is gone: sequences and epochs of its producers are lost", first)})
	case newest < 0 && v.o.Clean && v.report.Batches > 0:
		v.find(Finding{SeverityWarning, FindingSnapshot, v.o.Dir, -1, end,
			"there is no snapshot: Kafka would forget all producers, oncelog replays the log"})
	case newest < end && v.o.Clean && newest >= 0:
		v.find(Finding{SeverityDamage, FindingSnapshot, v.snapshotPath(newest), -1, newest,
			fmt.Sprintf("a clean stop leaves a snapshot at the log end, which is %d; the newest is of offset %d", end, newest)})
	}
}

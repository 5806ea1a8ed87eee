package kill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// verify compares every file of a directory that was closed cleanly with every
// other, as `oncelog verify` does.
func (l *life) verify(ctx context.Context) error {
	for _, name := range []string{"oncelog.journal", "oncelog.tail"} {
		if _, err := os.Stat(filepath.Join(l.data, name)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is still there after a clean stop: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(l.data, checkpoint.CleanShutdownFile)); err != nil {
		return err
	}
	points := map[string]map[topic.Partition]int64{}
	for _, name := range []string{checkpoint.RecoveryPointFile, checkpoint.LogStartFile, checkpoint.HighWatermarkFile} {
		b, err := os.ReadFile(filepath.Join(l.data, name))
		if err != nil {
			return err
		}
		entries, err := checkpoint.ReadOffsets(b)
		if err != nil {
			return err
		}
		points[name] = map[topic.Partition]int64{}
		for _, e := range entries {
			points[name][e.Partition] = e.Offset
		}
	}
	for i, p := range places {
		seen := &l.known.seen[i]
		if seen.missing {
			continue
		}
		tp := p.TopicPartition
		report, err := log.Verify(ctx, log.Options{
			Dir: filepath.Join(l.data, tp.String()), Partition: tp, ReadOnly: true, Clean: true, OwnOnly: true,
			Points: log.Points{
				RecoveryPoint: points[checkpoint.RecoveryPointFile][tp],
				LogStart:      points[checkpoint.LogStartFile][tp],
				HighWatermark: points[checkpoint.HighWatermarkFile][tp],
			},
		}, log.VerifyOptions{})
		if err != nil {
			return fmt.Errorf("verify %v: %w", tp, err)
		}
		if report.Damage+report.Warnings > 0 || report.LogStart != seen.start || report.LogEnd != seen.end {
			return fmt.Errorf("verify %v: offsets %d to %d, want %d to %d; findings %+v", tp, report.LogStart, report.LogEnd, seen.start, seen.end, report.Findings)
		}
	}
	return nil
}

package checkpoint

import (
	"strconv"

	"github.com/oncelog/oncelog/internal/topic"
)

// Names of the files that hold one offset for each partition, at the root of
// a log directory.
const (
	RecoveryPointFile   = "recovery-point-offset-checkpoint"
	LogStartFile        = "log-start-offset-checkpoint"
	HighWatermarkFile   = "replication-offset-checkpoint"
	CleanerFile         = "cleaner-offset-checkpoint"
	offsetEntryFields   = 3
	offsetEntryShape    = "topic partition offset"
	partitionNumberBits = 32
)

// OffsetEntry is the offset of one partition. What it means says the file.
type OffsetEntry struct {
	Partition topic.Partition
	Offset    int64
}

// ReadOffsets reads an offset checkpoint. The entries come in the order of the
// file; a partition that is there twice is given twice, and the last one
// counts. The error is a *FormatError.
func ReadOffsets(b []byte) ([]OffsetEntry, error) {
	var entries []OffsetEntry
	err := readEntries(b, offsetEntryShape, offsetEntryFields, func(s *lines, fields []string) error {
		if err := topic.CheckName(fields[0]); err != nil {
			return s.errorf("%v", err)
		}
		index, err := s.number("partition", fields[1], partitionNumberBits)
		if err != nil {
			return err
		}
		offset, err := s.number("offset", fields[2], 64)
		if err != nil {
			return err
		}
		entries = append(entries, OffsetEntry{
			Partition: topic.Partition{Topic: fields[0], Index: int32(index)},
			Offset:    offset,
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// AppendOffsets appends the file with these entries to dst, in their order.
func AppendOffsets(dst []byte, entries []OffsetEntry) []byte {
	dst = appendHead(dst, len(entries))
	for _, e := range entries {
		dst = append(dst, e.Partition.Topic...)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, int64(e.Partition.Index), 10)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, e.Offset, 10)
		dst = append(dst, '\n')
	}
	return dst
}

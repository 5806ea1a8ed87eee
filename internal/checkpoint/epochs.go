package checkpoint

import "strconv"

// LeaderEpochFile is the name of the file of epochs in the directory of a
// partition.
const LeaderEpochFile = "leader-epoch-checkpoint"

const (
	epochEntryFields = 2
	epochEntryShape  = "epoch start-offset"
	epochNumberBits  = 32
)

// EpochEntry says that the records from offset Start on were written under
// leader epoch Epoch, up to the Start of the next entry.
type EpochEntry struct {
	Epoch int32
	Start int64
}

// ReadEpochs reads a leader-epoch-checkpoint, in the order of the file. It
// does not ask for an order: Kafka applies the entries one after the other,
// and a later one removes what contradicts it. The error is a *FormatError.
func ReadEpochs(b []byte) ([]EpochEntry, error) {
	var entries []EpochEntry
	err := readEntries(b, epochEntryShape, epochEntryFields, func(s *lines, fields []string) error {
		epoch, err := s.number("epoch", fields[0], epochNumberBits)
		if err != nil {
			return err
		}
		start, err := s.number("start offset", fields[1], 64)
		if err != nil {
			return err
		}
		entries = append(entries, EpochEntry{Epoch: int32(epoch), Start: start})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// AppendEpochs appends the file with these entries to dst, in their order.
func AppendEpochs(dst []byte, entries []EpochEntry) []byte {
	dst = appendHead(dst, len(entries))
	for _, e := range entries {
		dst = strconv.AppendInt(dst, int64(e.Epoch), 10)
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, e.Start, 10)
		dst = append(dst, '\n')
	}
	return dst
}

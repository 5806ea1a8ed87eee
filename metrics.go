package oncelog

import "github.com/oncelog/oncelog/log"

// Metrics is a snapshot of what a store counts and holds. Counters count since
// Open and never fall: those of topics deleted and partitions opened again
// since then are in them. Those of one partition: Partition(tp) and its Metrics.
type Metrics struct {
	Topics     int
	Partitions int
	Refused    int // partitions that were not opened; Partition tells why
	Latched    int // partitions whose appends an I/O error ended

	Appends, AppendedBytes int64
	Duplicates             int64 // batches answered from memory
	Reads, ReadBytes       int64
	Fetches, FetchWaits    int64 // calls of Fetch, and those that had to wait
	Flushes, Rolls         int64
	Checkpoints            int64 // of partitions
	CheckpointWrites       int64 // of the checkpoint files
	NoSpace                int64 // appends refused because the device was full
	IndexFallbacks         int64 // times an index led astray and the log was scanned
	Segments, OpenSegments int
	Bytes                  int64 // of all segments
	Producers              int
	ProducerBytes          int64 // memory of their state
	ProducersEvicted       int64
	OpenTransactions       int // partitions with one at least
}

// Metrics takes a snapshot. It looks at every partition, each for an instant.
// After Close it is what the store counted until then, and held.
func (s *Store) Metrics() Metrics {
	m := Metrics{
		Topics: len(s.catalog.Topics()), CheckpointWrites: s.catalog.CheckpointWrites(), OpenSegments: s.files.Open(),
		Fetches: s.fetches.Load(), FetchWaits: s.waits.Load(),
	}
	closed := s.catalog.Count(func(_ TopicPartition, l *log.Log, err error) {
		m.Partitions++
		if l == nil {
			m.Refused++
			return
		}
		m.add(l.Metrics())
	})
	m.add(closed)
	return m
}

func (m *Metrics) add(p log.Metrics) {
	m.Appends += p.Appends
	m.AppendedBytes += p.AppendedBytes
	m.Duplicates += p.Duplicates
	m.Reads += p.Reads
	m.ReadBytes += p.ReadBytes
	m.Flushes += p.Flushes
	m.Rolls += p.Rolls
	m.Checkpoints += p.Checkpoints
	m.NoSpace += p.NoSpace
	m.IndexFallbacks += p.IndexFallbacks
	m.Segments += p.Segments
	m.Bytes += p.Bytes
	m.Producers += p.Producers
	m.ProducerBytes += int64(p.ProducerBytes)
	m.ProducersEvicted += p.ProducersEvicted
	if p.OpenTransactions {
		m.OpenTransactions++
	}
	if p.Failed != nil {
		m.Latched++
	}
}

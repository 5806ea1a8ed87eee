package log

import (
	"errors"
	"fmt"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
)

// recordCheck looks into the batches. Their checksums are right, so what is
// wrong inside was stored so: a warning, since no replica and no recovery
// looks inside either, but consumers do.
type recordCheck struct {
	records batch.Records
}

// check verifies what a leader asks of a batch.
func (c *recordCheck) check(v *verifier, b batch.Batch, at position) {
	warn := func(format string, args ...any) {
		v.find(at.finding(SeverityWarning, FindingRecords, format, args...))
	}
	h := b.Header()
	switch {
	case int64(h.RecordCount) > int64(h.LastOffsetDelta)+1:
		warn("%d records in a batch of %d offsets", h.RecordCount, int64(h.LastOffsetDelta)+1)
	case h.Producer.ID >= 0 && h.Producer.Epoch < 0:
		warn("producer id %d without an epoch", h.Producer.ID)
	case h.Producer.ID >= 0 && h.BaseSequence < 0 && !h.IsControl() && v.o.Partition.Topic != topic.ConsumerOffsets:
		warn("producer id %d without a sequence", h.Producer.ID)
	case h.BaseTimestamp < batch.None && !h.HasDeleteHorizon():
		warn("base timestamp %d", h.BaseTimestamp)
	}
	compacted := int64(h.RecordCount) <= int64(h.LastOffsetDelta)
	most, odd := int64(batch.None), ""
	due := int32(0)
	n := int64(0)
	c.records.Reset(b)
	for c.records.Next() {
		r := c.records.Record()
		n++
		most = max(most, r.Timestamp)
		// Compaction leaves gaps behind, and nothing else.
		if odd == "" && (r.OffsetDelta < due || r.OffsetDelta > h.LastOffsetDelta || r.OffsetDelta != due && !compacted) {
			odd = fmt.Sprintf("record %d has offset delta %d where %d follows; consumers skip records because of it", n-1, r.OffsetDelta, due)
		}
		due = max(due, r.OffsetDelta+1)
	}
	if !h.IsControl() {
		v.report.Records += n
	}
	err := c.records.Err()
	c.records.Close()
	switch {
	case errors.Is(err, batch.ErrDecompressedTooLarge):
		warn("%v: nothing behind that limit was looked at", err)
	case err != nil:
		warn("%v; consumers stop here", err)
	case odd != "":
		warn("%s", odd)
	case n > 0 && most != h.MaxTimestamp:
		warn("the header says that the greatest timestamp is %d, it is %d", h.MaxTimestamp, most)
	}
}

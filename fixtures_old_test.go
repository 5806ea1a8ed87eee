package oncelog_test

import (
	"path/filepath"
	"testing"

	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/log"
)

// TestOldSegments opens partitions that Kafka 3.1 wrote and of which only the
// .log files are left (and, of a topic, epochs and metadata): everything else
// is made anew.
func TestOldSegments(t *testing.T) {
	const kafka = "testdata/kafka-3.1.0"
	dir := t.TempDir()
	copyTree(t, dir, kafka)
	before := treeOf(t, dir)
	o := kafkaOpening(t, dir, 1_700_000_000_000, history{})
	c := &tally{}
	for _, run := range []struct {
		name            string
		readOnly, clean bool
	}{{"read-only", true, false}, {"read-only, closed cleanly", true, true}, {"writable", false, false}, {"reopened", false, true}} {
		o.readOnly = run.readOnly
		if run.readOnly {
			o.clean = run.clean
		}
		d := o.each(t)
		for _, tp := range d.partitions() {
			t.Run(run.name+"/"+tp.String(), func(t *testing.T) {
				files := readPartitionFiles(t, filepath.Join(kafka, tp.String()))
				if size := files[0].size(); size != int64(len(files[0].bytes)) {
					t.Fatalf("%d bytes of %d are batches", size, len(files[0].bytes))
				}
				compareOld(t, d.logs[tp], files, c)
			})
		}
		next := d.close(t)
		if run.readOnly {
			sameTree(t, before, treeOf(t, dir))
		} else {
			o = next
		}
	}
	for path, b := range before {
		if filepath.Ext(path) == ".log" && string(mustRead(t, path)) != string(b) {
			t.Errorf("%s has changed", path)
		}
	}
	c.check(t, "records", "batches", "leader epochs")
}

// compareOld compares a log with the batches in its files.
func compareOld(t *testing.T, l *log.Log, files partitionFiles, c *tally) {
	batches := files.batchesOf()
	got := consume(t, l, log.ReadCommitted)
	wantRecords, wantEpochs := 0, []checkpoint.EpochEntry(nil)
	for _, b := range batches {
		wantRecords += int(b.RecordCount())
		if n := len(wantEpochs); n == 0 || wantEpochs[n-1].Epoch < b.LeaderEpoch() {
			wantEpochs = append(wantEpochs, checkpoint.EpochEntry{Epoch: b.LeaderEpoch(), Start: b.BaseOffset()})
		}
	}
	if len(got.records) != wantRecords || got.batches != len(batches) {
		t.Errorf("%d records of %d batches, want %d of %d", len(got.records), got.batches, wantRecords, len(batches))
	}
	end := batches[len(batches)-1].NextOffset()
	if f := l.Frontiers(); f.HighWatermark != end || got.position != end {
		t.Errorf("high watermark %d, a reader ends at %d, want %d", f.HighWatermark, got.position, end)
	}
	if epochs := l.Epochs(); len(epochs) == 0 || epochs[len(epochs)-1] != wantEpochs[len(wantEpochs)-1] {
		t.Errorf("leader epochs %v, want %v", epochs, wantEpochs)
	}
	c.add("records", len(got.records))
	c.add("batches", got.batches)
	c.add("leader epochs", len(wantEpochs))
}

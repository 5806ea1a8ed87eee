package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/segment"
	"github.com/oncelog/oncelog/log"
)

// printRecord prints a record that was delivered.
func printRecord(w *output, b batch.Batch, r *batch.Record) {
	w.begin("record")
	w.int("offset", r.Offset)
	if w.json {
		w.int("ts", r.Timestamp)
		w.string("ts_type", b.Timestamps().String())
		w.int("leader_epoch", int64(b.LeaderEpoch()))
	} else {
		w.string("time", timeText(r.Timestamp))
	}
	w.bytes("key", r.Key)
	w.bytes("value", r.Value)
	if w.json {
		w.object("headers", headersOf(r))
	} else {
		w.string("headers", headersText(r))
	}
	w.end()
}

// timeText shows a timestamp so that --from takes it.
func timeText(ms int64) string {
	if ms < 0 {
		return "-"
	}
	t := time.UnixMilli(ms).UTC()
	if t.Year() > 9999 {
		return fmt.Sprintf("@%d", ms)
	}
	return t.Format("2006-01-02T15:04:05.000Z")
}

func headersText(r *batch.Record) string {
	if r.Headers.Len() == 0 {
		return "-"
	}
	var all []string
	for key, value := range r.Headers.All() {
		all = append(all, printable(string(key))+"="+bytesText(value))
	}
	return strings.Join(all, " ")
}

// tell writes a line for a person, behind the records.
func (c *consumer) tell(format string, args ...any) {
	fmt.Fprintf(c.stderr, "oncelog: "+format+"\n", args...)
}

// tellLeftOut tells what lay between the records that were shown.
func (c *consumer) tellLeftOut() {
	var all []string
	for _, l := range []struct {
		n          int64
		one, other string
	}{
		{c.delivery.Left.Control, "control record", "control records"},
		{c.delivery.Left.Aborted, "record of aborted transactions", "records of aborted transactions"},
		{c.delivery.Left.Repeated, "record with an offset not above the one before", "records with an offset not above the one before"},
	} {
		switch {
		case l.n == 1:
			all = append(all, "1 "+l.one)
		case l.n > 1:
			all = append(all, fmt.Sprintf("%d %s", l.n, l.other))
		}
	}
	if len(all) > 0 {
		c.tell("left out: %s", strings.Join(all, ", "))
	}
}

// openMax is how many open transactions are named.
const openMax = 10

// tellEnd tells why the records end where they do, if that is not the end of
// the files.
func (c *consumer) tellEnd() {
	f := c.source.log.Frontiers()
	if c.delivery.Isolation == log.ReadCommitted && f.LastStable < f.LogEnd {
		c.tell("stopped at the last stable offset %d, the log ends at %d", f.LastStable, f.LogEnd)
		open := c.source.log.Ongoing()
		for _, t := range open[:min(len(open), openMax)] {
			c.tell("transaction of producer id %d, epoch %d: open since offset %d", t.Producer.ID, t.Producer.Epoch, t.First)
		}
		if n := len(open) - openMax; n > 0 {
			c.tell("%d more transactions are open", n)
		}
	}
	if n := c.source.tail(); n > 0 && c.source.damage == nil {
		c.tell("%d bytes from offset %d on are no whole batches: recovery would cut them", n, f.LogEnd)
	}
}

// tailLook is how much of what follows the last batch is looked at: a torn
// batch begins with its header.
const tailLook = 4 << 10

// tail counts the bytes behind the end of the log that are no unwritten space.
func (s *source) tail() (bytes int64) {
	sizes := map[int64]int64{} // of whole batches, by base offset
	for info := range s.log.Segments() {
		sizes[info.Base] = info.Bytes
	}
	end := s.log.Frontiers().LogEnd
	for _, f := range s.sight().files {
		n, ok := segment.ParseName(filepath.Base(f.path))
		size, kept := sizes[n.Offset]
		if !ok || n.Suffix != segment.SuffixNone || n.Offset < end && !kept {
			continue // is no segment, or came or went meanwhile, or lies below the log start
		}
		if f.size > size && s.written(f.path, size) {
			bytes += f.size - size
		}
	}
	return bytes
}

// written tells whether a file has something but zeros at pos.
func (s *source) written(path string, pos int64) bool {
	f, err := s.fs.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, tailLook)
	n, err := f.ReadAt(b, pos)
	return (err == nil || err == io.EOF) && strings.Trim(string(b[:n]), "\x00") != ""
}

// isTerminal tells whether a person sees what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// machine is a partition with what a store keeps around it, the recorded
// points and the clean mark, on a file system that fails and crashes. Beside it
// stands a naive model of what was promised.
type machine struct {
	t      testing.TB
	mem    *vfs.Mem
	fs     *faultfs.FS
	o      Options
	l      *Log
	now    time.Time
	events []Event

	// The model.
	batches  []batch.Batch // as they must be stored, from offset 0; the last ones perhaps
	must     int           // so many survive a power loss
	mustKill int           // so many survive the end of the process
	start    [2]int64      // least and greatest log start that is right
	epoch    int32         // that the next batch gets
}

const epoch2023 = 1_700_000_000_000

func newMachine(t testing.TB, c Config) *machine {
	t.Helper()
	m := &machine{t: t, mem: vfs.NewMem(), now: time.UnixMilli(epoch2023 + 100_000)}
	m.fs = faultfs.New(m.mem, faultfs.Plan{})
	m.o = Options{FS: m.fs, Dir: "/d", Partition: topic.Partition{Topic: "t"}, Config: c, OwnOnly: true}
	m.wire()
	m.ok(m.mem.Mkdir("/d", 0o755))
	m.ok(m.mem.SyncDir("/"))
	m.ok(m.open())
	return m
}

func (m *machine) wire() {
	m.o.FS, m.o.Checkpoints = m.fs, m
	m.o.Now = func() time.Time { return m.now }
	m.o.Events = func(e Event) { m.events = append(m.events, e) }
}

// on gives the same machine, with a model of its own, that finds another file
// system when it comes up.
func (m *machine) on(mem *vfs.Mem) *machine {
	n := *m
	n.mem, n.fs, n.l, n.events = mem, faultfs.New(mem, faultfs.Plan{}), nil, nil
	n.batches = slices.Clone(m.batches)
	n.wire()
	return &n
}

func (m *machine) ok(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// Record implements Checkpoints.
func (m *machine) Record(_ context.Context, _ topic.Partition, p Points) error {
	return vfs.Replace(m.fs, "/points", fmt.Appendf(nil, "%d %d %d", p.RecoveryPoint, p.LogStart, p.HighWatermark))
}

// points are the recorded ones.
func (m *machine) points() (p Points, err error) {
	b, err := vfs.ReadFile(m.fs, "/points", 100)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		_, err = fmt.Sscanf(string(b), "%d %d %d", &p.RecoveryPoint, &p.LogStart, &p.HighWatermark)
	}
	return p, err
}

// open does what a store does: the clean mark goes first.
func (m *machine) open() (err error) {
	if m.o.Points, err = m.points(); err != nil {
		return err
	}
	_, err = m.fs.Stat("/clean")
	m.o.Clean = err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := Load(m.o)
	if err != nil {
		return err
	}
	if m.o.Clean {
		err = m.fs.Remove("/clean")
	}
	// What was read may not be durable itself yet.
	if err = errors.Join(err, m.fs.SyncDir("/")); err != nil {
		return errors.Join(err, l.Abandon())
	}
	if _, err = l.Recover(m.t.Context()); err == nil {
		err = m.Record(m.t.Context(), m.o.Partition, l.Points())
	}
	if err != nil {
		return errors.Join(err, l.Abandon())
	}
	m.l = l
	return nil
}

// close closes cleanly.
func (m *machine) close() error {
	p, err := m.l.Close(m.t.Context())
	if err == nil {
		err = m.Record(m.t.Context(), m.o.Partition, p)
	}
	if err == nil {
		err = vfs.Replace(m.fs, "/clean", nil)
	}
	if err == nil {
		m.must, m.mustKill = len(m.batches), len(m.batches)
	}
	return err
}

func (m *machine) end() int64 { return nextOf(m.batches) }

func nextOf(batches []batch.Batch) int64 {
	if len(batches) == 0 {
		return 0
	}
	return batches[len(batches)-1].NextOffset()
}

// build makes the k-th batch of a history: plain and idempotent ones, three
// transactional producers whose transactions overlap, end both ways, and stay
// open for long.
func (m *machine) build() (batch.Batch, *batch.Marker) {
	k := len(m.batches)
	cycle := k / 10
	ended := func(id int64, commit bool) (batch.Batch, *batch.Marker) {
		e := batch.Marker{Producer: batch.Producer{ID: id}, Commit: commit, CoordinatorEpoch: int32(cycle), Timestamp: epoch2023 + int64(k)}
		return batch.AppendMarker(nil, e), &e
	}
	switch k % 10 {
	case 1, 5:
		return m.data(10, k%4+1, false), nil
	case 2:
		return m.data(20, 2, true), nil
	case 4:
		return m.data(21, 1, true), nil
	case 7:
		return m.data(22, 3, true), nil
	case 6:
		return ended(20, cycle%2 == 1)
	case 8:
		return ended(21, false)
	case 9:
		if cycle%3 != 2 {
			return ended(22, cycle%3 == 1)
		}
	}
	return m.data(-1, k%3+1, false), nil
}

// data is the next batch of a producer.
func (m *machine) data(id int64, n int, transactional bool) batch.Batch {
	k := len(m.batches)
	o := batch.Plain
	if id >= 0 {
		o.Producer, o.BaseSequence, o.Transactional = batch.Producer{ID: id}, 0, transactional
		for i := k - 1; i >= 0; i-- {
			if b := m.batches[i]; b.ProducerID() == id && !b.IsControl() {
				h := b.Header()
				o.BaseSequence = h.LastSequence() + 1
				break
			}
		}
	}
	var w batch.Builder
	w.Reset(nil, o)
	for i := range n {
		w.Add(epoch2023+int64(k*7919%50)*1000+int64(i), fmt.Appendf(nil, "%d", k), bytes.Repeat([]byte{byte(k)}, 20+k%5*30))
	}
	b, err := w.Finish()
	m.ok(err)
	return b
}

// append appends the next batch of the history; it counts as attempted whatever
// comes of it.
func (m *machine) append() error {
	b, marker := m.build()
	var g AppendOptions
	var err error
	if b.IsTransactional() && marker == nil {
		if g.Guard, _, err = m.l.Guard(b.Producer(), b.BaseSequence(), false); err != nil {
			return err
		}
	}
	stored := slices.Clone(b)
	stored.Stamp(m.end(), m.epoch)
	m.batches = append(m.batches, stored)
	var a Appended
	if marker != nil {
		a, err = m.l.AppendMarker(m.t.Context(), *marker, MarkerOptions{})
	} else {
		a, err = m.l.Append(m.t.Context(), b, g)
	}
	if err != nil {
		return err
	}
	if a.BaseOffset != stored.BaseOffset() || a.LastOffset != stored.LastOffset() || a.Duplicate {
		m.t.Errorf("appended at %+v, want %d", a, stored.BaseOffset())
	}
	m.mustKill = len(m.batches)
	if m.l.level() == DurabilityFsync {
		m.must = len(m.batches)
	}
	return nil
}

func (m *machine) appendMany(n int) error {
	for range n {
		if err := m.append(); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint makes a checkpoint and records it.
func (m *machine) checkpoint() error {
	n := len(m.batches)
	p, err := m.l.Checkpoint(m.t.Context())
	if err == nil {
		m.must = n
		err = m.Record(m.t.Context(), m.o.Partition, p)
	}
	return err
}

func (m *machine) deleteRecords(offset int64) error {
	m.start[1] = max(m.start[1], offset)
	start, err := m.l.DeleteRecords(m.t.Context(), offset)
	if err == nil {
		if start != max(offset, m.start[0]) {
			m.t.Errorf("deleted up to %d, want %d", start, offset)
		}
		m.start[0] = max(m.start[0], offset)
	}
	return err
}

// truncate cuts the model's n-th batch and all behind it.
func (m *machine) truncate(n int) error {
	m.must, m.mustKill = min(m.must, n), min(m.mustKill, n)
	err := m.l.Truncate(m.t.Context(), nextOf(m.batches[:n]))
	if err == nil {
		m.batches = m.batches[:n]
	}
	return err
}

// follow is the model of a log whose content is known again: of what was only
// attempted, some is there.
func (m *machine) follow(kill bool) {
	m.t.Helper()
	must := m.must
	if kill {
		must = m.mustKill
	}
	f := m.l.Frontiers()
	n := 0
	for n < len(m.batches) && m.batches[n].NextOffset() <= f.LogEnd {
		n++
	}
	if nextOf(m.batches[:n]) != f.LogEnd {
		m.t.Fatalf("the log ends at %d, where no batch does", f.LogEnd)
	}
	if n < must {
		m.t.Fatalf("%d batches of %d that were acknowledged are left: %+v", n, must, f)
	}
	m.batches, m.must, m.mustKill = m.batches[:n], n, n
	if f.LogStart < m.start[0] || f.LogStart > m.start[1] {
		m.t.Fatalf("log start %d, want %v", f.LogStart, m.start)
	}
	m.start = [2]int64{f.LogStart, f.LogStart}
	if epochs := m.l.Epochs(); len(epochs) > 0 {
		m.epoch = epochs[len(epochs)-1].Epoch
	}
}

// Files, as a test changes them while the log is closed.

// kill ends the process: the machine goes on with what that leaves.
func (m *machine) kill() {
	m.t.Helper()
	if m.l != nil {
		_ = m.l.Abandon()
	}
	n := m.on(m.mem.KillClone())
	m.mem, m.fs, m.l = n.mem, n.fs, nil
	m.events = nil
	m.wire()
}

func (m *machine) read(name string) []byte {
	m.t.Helper()
	b, err := vfs.ReadFile(m.mem, "/d/"+name, 1<<30)
	m.ok(err)
	return b
}

func (m *machine) write(name string, content []byte) {
	m.t.Helper()
	m.ok(vfs.Replace(m.mem, "/d/"+name, content))
}

func (m *machine) remove(name string) {
	m.t.Helper()
	m.ok(m.mem.Remove("/d/" + name))
}

// files are all files of the partition with their content.
func (m *machine) files() map[string]string {
	m.t.Helper()
	entries, err := m.mem.ReadDir("/d")
	m.ok(err)
	all := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			all[e.Name()] = "directory"
			continue
		}
		all[e.Name()] = string(m.read(e.Name()))
	}
	return all
}

// names are the files with a suffix, ascending.
func (m *machine) names(suffix string) (names []string) {
	for name := range m.files() {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// told are the events of a kind.
func (m *machine) told(k EventKind) (found []Event) {
	for _, e := range m.events {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	return found
}

// forget lets the model forget the last n batches: a test took them away.
func (m *machine) forget(n int) {
	m.batches = m.batches[:len(m.batches)-n]
	m.must, m.mustKill = len(m.batches), len(m.batches)
}

// same compares the files with those of before.
func (m *machine) same(before map[string]string) {
	m.t.Helper()
	after := m.files()
	for name := range before {
		if after[name] != before[name] {
			m.t.Errorf("%s changed", name)
		}
	}
	for name := range after {
		if _, was := before[name]; !was {
			m.t.Errorf("%s was made", name)
		}
	}
}

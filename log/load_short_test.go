package log

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/segment"
)

// TestLogEndsBelowPoint takes away what was on the device: half a segment, the
// last one, all. The log does not open, nothing changes, and with the files
// back in their place it is whole. A restart, without the clean mark that went
// with the first try, is no reason to serve it.
func TestLogEndsBelowPoint(t *testing.T) {
	for _, own := range []bool{true, false} {
		origin := newMachine(t, small)
		origin.ok(origin.appendMany(33))
		origin.ok(origin.close())
		origin.o.OwnOnly = own
		segments := origin.names(".log")
		last := segments[len(segments)-1]
		base, _ := segment.ParseName(last)
		beforeLast := segments[len(segments)-2]
		first := origin.batches[0]
		for how, lost := range map[string]struct {
			take func(m *machine)
			want CorruptionError
		}{
			"half a segment": {func(m *machine) {
				for _, name := range segments[1:] {
					m.remove(name)
				}
				m.write(logFile, m.read(logFile)[:len(first)])
			}, CorruptionError{File: logFile, Pos: int64(len(first)), Offset: first.NextOffset()}},
			"the last segment": {func(m *machine) { m.remove(last) },
				CorruptionError{File: beforeLast, Pos: int64(len(origin.read(beforeLast))), Offset: base.Offset}},
			"content of the last segment": {func(m *machine) { m.write(last, nil) }, CorruptionError{File: last, Offset: base.Offset}},
			"all segments": {func(m *machine) {
				for _, name := range segments {
					m.remove(name)
				}
			}, CorruptionError{File: logFile}},
		} {
			m := origin.on(origin.mem.KillClone())
			kept := m.files()
			lost.take(m)
			before := m.files()
			for _, clean := range []bool{true, false} {
				if !clean {
					m.ok(m.mem.Remove("/clean"))
				}
				err := m.open()
				c, ok := errors.AsType[*CorruptionError](err)
				if !ok || !errors.Is(err, ErrCorrupt) || filepath.Base(c.File) != lost.want.File || c.Pos != lost.want.Pos || c.Offset != lost.want.Offset || c.ReadableFrom != -1 {
					t.Fatalf("own %v, clean %v, %s: %v; want %+v", own, clean, how, err, lost.want)
				}
				if point := fmt.Sprint(m.end()); !strings.Contains(err.Error(), point) {
					t.Errorf("%s: %v does not tell of %s", how, err, point)
				}
				m.same(before)
			}
			for name := range kept {
				m.write(name, []byte(kept[name]))
			}
			m.ok(m.open())
			m.compare()
			m.goOn()
		}
	}
}

// TestWitnessOfLostEnd: after a crash, a recovery point that lies behind the
// log end is believed if one file says the same, whichever it is; where others
// have written, only a snapshot counts.
func TestWitnessOfLostEnd(t *testing.T) {
	origin := newMachine(t, Config{SegmentBytes: 1 << 20, IndexIntervalBytes: 100})
	origin.ok(origin.appendMany(9))
	kept := sizeOf(origin.batches)
	origin.ok(origin.beginEpoch(1)) // begins at the end that is left: that alone tells of no batch
	origin.ok(origin.appendMany(30))
	origin.ok(origin.beginEpoch(2))
	origin.ok(origin.append())
	origin.ok(origin.close())
	origin.ok(origin.mem.Remove("/clean"))
	epochs := origin.read(EpochsName)
	index := strings.TrimSuffix(logFile, ".log")
	for _, witness := range []string{"", EpochsName, index + ".index", index + ".timeindex", index + ".txnindex", origin.names(".snapshot")[0]} {
		for _, own := range []bool{true, false} {
			m := origin.on(origin.mem.KillClone())
			m.o.OwnOnly = own
			m.forget(31)
			m.write(logFile, m.read(logFile)[:kept])
			for name := range m.files() {
				switch {
				case name == EpochsName && witness != name:
					m.write(name, []byte("0\n2\n0 0\n1 "+fmt.Sprint(m.end())+"\n"))
				case name != logFile && name != witness && name != EpochsName:
					m.remove(name)
				}
			}
			if witness == EpochsName {
				m.write(witness, epochs)
			}
			err := m.open()
			if refused := own && witness != "" || strings.HasSuffix(witness, ".snapshot"); refused {
				if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), witness) {
					t.Errorf("own %v, %q: %v", own, witness, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("own %v, %q: %v", own, witness, err)
				continue
			}
			if f := m.l.Frontiers(); f.LogEnd != m.end() {
				t.Errorf("own %v, %q: %+v, want the end at %d", own, witness, f, m.end())
			}
			if told := m.told(EventPointBeyondEnd); len(told) != 1 || told[0].From != m.end() || told[0].To != origin.end() {
				t.Errorf("own %v, %q: told %+v", own, witness, told)
			}
			m.ok(m.l.Abandon())
		}
	}
}

// TestNoSegmentIsLeft: our own log has a segment from its first moment on, so
// that a recorded point and no segment is a loss, also without a witness.
// Elsewhere it may be the number of a topic that was deleted and made again.
func TestNoSegmentIsLeft(t *testing.T) {
	for _, own := range []bool{true, false} {
		m := newMachine(t, small)
		m.ok(m.appendMany(5))
		m.ok(m.checkpoint())
		m.kill()
		m.o.OwnOnly = own
		for name := range m.files() {
			m.remove(name)
		}
		err := m.open()
		if own {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("our own log without segments: %v", err)
			}
			continue
		}
		m.ok(err)
		if told := m.told(EventPointBeyondEnd); len(told) != 1 || told[0].From != 0 || told[0].To != m.end() {
			t.Errorf("told %+v", told)
		}
		m.ok(m.l.Abandon())
	}
}

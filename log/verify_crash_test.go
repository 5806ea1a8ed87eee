package log

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/internal/vfs/faultfs"
)

// verifyAsLeft verifies a directory as it lies there.
func (m *machine) verifyAsLeft() VerifyReport {
	m.t.Helper()
	o := m.o
	var err error
	if o.Points, err = m.points(); err != nil {
		m.t.Fatal(err)
	}
	_, err = m.fs.Stat("/clean")
	o.Clean = err == nil
	r, err := Verify(m.t.Context(), o, VerifyOptions{})
	if err != nil {
		m.t.Errorf("verify: %v", err)
	}
	return r
}

// What a crash leaves at any file operation is no damage, before recovery and
// after it, and verifying changes nothing. An open log agrees with its files
// at any time.
func TestVerifyWhatCrashesLeave(t *testing.T) {
	notes, seen := 0, 0
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			for n := 0; ; n += 2 * stride(n) {
				r := rand.New(rand.NewPCG(uint64(n), 15))
				m := s.machine(t)
				m.fs.SetPlan(dies(n, r))
				err := s.run(m)
				if !m.fs.Fired() {
					m.ok(err)
					m.fs.SetPlan(faultfs.Plan{})
					if err := m.l.Check(t.Context()); err != nil && !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					break
				}
				for i, l := range leaves(m.mem, r, 2) {
					c := m.on(l.mem)
					before := c.files()
					report := c.verifyAsLeft()
					seen, notes = seen+1, notes+report.Notes+report.Warnings
					c.same(before)
					if report.Damage > 0 {
						t.Errorf("%v", tell(report))
					}
					c.ok(c.open())
					if end := c.l.Frontiers().LogEnd; report.LogEnd != end {
						t.Errorf("verify saw the log end at %d, recovery at %d%s", report.LogEnd, end, tell(report))
					}
					c.ok(c.l.Check(t.Context()))
					c.ok(c.close())
					if report = c.verifyAsLeft(); report.Damage > 0 {
						t.Errorf("after recovery and a clean close: %v", tell(report))
					}
					if t.Failed() {
						t.Fatalf("what crash %d at operation %d leaves", i, n)
					}
				}
			}
		})
	}
	t.Logf("%d directories, %d notes and warnings", seen, notes)
	if seen == 0 || notes == 0 {
		t.Error("nothing was torn")
	}
}

// Every flipped bit of what we write is found.
func TestVerifyFindsFlipsOfOurs(t *testing.T) {
	m := newMachine(t, small)
	for _, n := range []int{12, 9} {
		m.ok(m.appendMany(n))
		m.ok(m.maintain())
		m.ok(m.close())
		m.ok(m.open())
		m.epoch++
		m.ok(m.l.BeginEpoch(m.epoch))
	}
	m.ok(m.appendMany(3))
	m.ok(m.close())
	o, r := m.o, m.verifyAsLeft()
	o.Clean = true
	var err error
	if o.Points, err = m.points(); err != nil {
		t.Fatal(err)
	}
	if r.Segments < 3 || r.Producers == 0 || r.Aborted == 0 || len(m.l.Epochs()) < 2 {
		t.Fatalf("%+v has too little in it", r)
	}
	s := readStill(t, vfs.FS(m.mem), "/d")
	bitStride := 1
	if raced {
		bitStride = 401
	}
	findsAll(t, s, o, VerifyOptions{}, logFlips(t, s, 1, bitStride), SeverityDamage)
}

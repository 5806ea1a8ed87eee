package log

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncelog/oncelog/internal/segment"
)

// An empty segment whose base lies inside the log, as a roll leaves it that failed
// and whose directory entry a crash brings back, goes alone: the segments around it
// stay, also where the one before ends in space that was never written.
func TestLeftoverSegment(t *testing.T) {
	for _, own := range []bool{true, false} {
		for name, content := range map[string][]byte{"empty": nil, "zeros": make([]byte, 900)} {
			for _, before := range []int{0, 300} {
				m := newMachine(t, small)
				m.ok(m.appendMany(8))
				m.ok(m.checkpoint())
				m.ok(m.appendMany(30))
				m.kill()
				m.o.OwnOnly = own
				segments := m.names(".log")
				if len(segments) < 4 {
					t.Fatalf("%d segments", len(segments))
				}
				first, _ := segment.ParseName(segments[2])
				left := segment.FileName(first.Offset-1, segment.KindLog)
				if slices.Contains(segments, left) {
					t.Fatalf("%s is a segment", left)
				}
				m.write(left, content)
				m.write(segments[1], append(m.read(segments[1]), make([]byte, before)...))
				m.must = len(m.batches)

				r := m.verifyAsLeft()
				for _, f := range r.Findings {
					if f.Severity != SeverityNote {
						t.Errorf("%s, %d zeros before: %+v", name, before, f)
					}
				}
				if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return strings.HasSuffix(f.File, left) }) {
					t.Errorf("%s is not told of: %+v", left, r.Findings)
				}
				m.ok(m.open())
				m.compare()
				if slices.Contains(m.names(".log"), left) || len(m.names(".cut")) > 0 {
					t.Errorf("%s, %d zeros before: left are %v", name, before, m.names(""))
				}
				m.goOn()
			}
		}
	}
}

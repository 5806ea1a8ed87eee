package log

import (
	"fmt"
	"testing"
)

// A flood of lesser findings hides no damage: all are counted, and those that
// are kept are the worst, the earliest among equals.
func TestVerifyKeepsTheWorstFindings(t *testing.T) {
	const kept = 10
	for _, c := range []struct {
		notes, warnings, damage int
		want                    [SeverityDamage + 1]int
	}{
		{100, 0, 0, [...]int{kept, 0, 0}},
		{100, 3, 0, [...]int{7, 3, 0}},
		{100, 3, 4, [...]int{3, 3, 4}},
		{0, 100, 4, [...]int{0, 6, 4}},
		{100, 100, 100, [...]int{0, 0, kept}},
		{2, 3, 4, [...]int{2, 3, 4}},
	} {
		v := newVerifier(t.Context(), Options{}.withDefaults(), VerifyOptions{FindingsMax: kept})
		for severity, n := range []int{c.notes, c.warnings, c.damage} {
			for i := range n {
				v.find(Finding{Severity: Severity(severity), Pos: int64(i)})
			}
			v.find(Finding{Severity: SeverityNote, Pos: 1 << 40}) // too late, or one more
		}
		var got [SeverityDamage + 1]int
		for _, f := range v.report.Findings {
			if f.Pos < 1<<40 {
				if f.Pos != int64(got[f.Severity]) && c.want[f.Severity] == kept {
					t.Errorf("%+v: %d is not the next", c, f.Pos)
				}
				got[f.Severity]++
			}
		}
		if all := c.notes + c.warnings + c.damage; all >= kept && got != c.want {
			t.Errorf("%+v: kept %v", c, got)
		}
		if r := v.report; r.Notes != c.notes+3 || r.Warnings != c.warnings || r.Damage != c.damage || len(r.Findings) > kept {
			t.Errorf("%+v: counted %s", c, fmt.Sprint(r.Notes, r.Warnings, r.Damage))
		}
	}
}

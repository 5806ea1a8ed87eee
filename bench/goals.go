package bench

import (
	"fmt"
	"strings"
)

// bound is a goal: of a ratio to a reference, or of what was measured.
type bound struct {
	limit float64
	most  bool    // the limit is the largest that holds; else the smallest
	slack float64 // beside the limit, in the unit of the metric
	text  string  // instead of the usual one
	none  bool    // there is no goal, only a ratio
	plain bool    // the limit is one of what was measured, though there is a reference to see beside it
}

func atLeast(limit float64) bound { return bound{limit: limit} }
func atMost(limit float64) bound  { return bound{limit: limit, most: true} }

// goal is one row to fill from a race: the metric of the engine, held against
// that of a reference.
type goal struct {
	id, what  string
	metric    Metric
	engine    string // name of the side; "": engine
	reference string // "": none, the bound is of what was measured
	bound     bound
	note      string
}

func (g *goal) text() string {
	sign := "≥"
	if g.bound.most {
		sign = "≤"
	}
	switch {
	case g.bound.none:
		return ""
	case g.bound.text != "":
		return g.bound.text
	case g.reference == "" || g.bound.plain:
		return fmt.Sprintf("%s %g %s", sign, g.bound.limit, g.metric)
	}
	return fmt.Sprintf("%s %g × %s", sign, g.bound.limit, g.reference)
}

// row fills the row in.
func (g *goal) row(all []series, interrupted bool) Row {
	r := Row{ID: g.id, What: g.what, Metric: g.metric, Goal: g.text(), ReferenceKind: g.reference, Note: g.note, Interrupted: interrupted}
	name := g.engine
	if name == "" {
		name = "engine"
	}
	measured, reference := valuesOf(all, name, g.metric), valuesOf(all, g.reference, g.metric)
	if len(measured) == 0 {
		return r
	}
	m := median(measured)
	r.Measured = &m
	of := spreadOf(measured)
	value := m
	if g.reference != "" {
		if len(reference) == 0 {
			r.Spread = &of
			return r // references were not asked for
		}
		ref := median(reference)
		r.Reference = &ref
		of = spreadOf(ratios(measured, reference))
		r.Ratio = &of.Median
		if !g.bound.plain {
			value = of.Median
		}
		if g.bound.slack > 0 { // the bound is limit × reference + slack
			value = (m - g.bound.slack) / ref
		}
	}
	r.Spread = &of
	if g.bound.none {
		return r
	}
	holds := value >= g.bound.limit
	if g.bound.most {
		holds = value <= g.bound.limit
	}
	r.Holds = &holds
	return r
}

// ratiosOf makes rows without goals: one side against each of the others.
func ratiosOf(prefix string, m Metric, engine string, references ...contestant) []goal {
	var goals []goal
	for _, s := range references {
		goals = append(goals, goal{id: prefix + "/" + strings.ReplaceAll(s.name, " ", "-"), what: engine + " against " + s.name,
			metric: m, engine: engine, reference: s.name, bound: bound{none: true}})
	}
	return goals
}

// valuesOf finds the values of a side; nil if it is not there.
func valuesOf(all []series, name string, m Metric) []float64 {
	for i := range all {
		if all[i].name == name {
			return all[i].values(m)
		}
	}
	return nil
}

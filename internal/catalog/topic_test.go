package catalog

import (
	"strings"
	"testing"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// The smallest segments take small batches and markers, and what does not fit
// is refused by the configuration with what to set.
func TestSmallestSegments(t *testing.T) {
	c := mustOpen(t, on(newMem(t)))
	mustCreate(t, c, "a", TopicConfig{SegmentBytes: SegmentBytesMin, BatchBytesMax: SegmentBytesMin})
	mustAppend(t, c, at("a", 0), numbers(5)...)
	l, err := c.Partition(at("a", 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.AppendMarker(t.Context(), batch.Marker{Producer: batch.Producer{ID: 1}}, log.MarkerOptions{}); err != nil {
		t.Error(err)
	}
	err = c.CreateTopic(t.Context(), "b", TopicConfig{BatchBytesMax: 5000})
	if err == nil || !strings.Contains(err.Error(), "set SegmentBytes to 5000 or more, or BatchBytesMax to 4096 or less") {
		t.Errorf("got %v", err)
	}
}

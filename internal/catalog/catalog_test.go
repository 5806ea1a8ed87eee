package catalog

import (
	"errors"
	"fmt"
	"testing"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// Sync does not mind topics that come and go.
func TestSyncBesideDeletion(t *testing.T) {
	c := mustOpen(t, on(newMem(t)))
	mustCreate(t, c, "kept", TopicConfig{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100 {
			name := fmt.Sprint("t", i)
			if err := errors.Join(c.CreateTopic(t.Context(), name, TopicConfig{}), c.DeleteTopic(t.Context(), name)); err != nil {
				t.Error(err)
			}
		}
	}()
	for going := true; going; {
		select {
		case <-done:
			going = false
		default:
		}
		if err := c.Sync(t.Context()); err != nil {
			t.Error(err)
		}
	}
	mustClose(t, c)
	if err := c.Sync(t.Context()); !errors.Is(err, log.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Counters never fall while topics come and go.
func TestCountersBesideDeletion(t *testing.T) {
	c := mustOpen(t, on(newMem(t)))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100 {
			name := fmt.Sprint("t", i%3)
			err := c.CreateTopic(t.Context(), name, TopicConfig{Durability: log.DurabilityOS})
			if err == nil {
				_, err = appendTo(c, at(name, 0), record("x"))
			}
			if err = errors.Join(err, c.DeleteTopic(t.Context(), name)); err != nil {
				t.Error(err)
			}
		}
	}()
	seen := int64(0)
	for going := true; going; {
		select {
		case <-done:
			going = false
		default:
		}
		n := int64(0)
		closed := c.Count(func(_ topic.Partition, l *log.Log, _ error) { n += l.Metrics().Appends })
		if n += closed.Appends; n < seen {
			t.Errorf("%d appends after %d", n, seen)
		}
		seen = n
	}
	if seen != 100 {
		t.Errorf("%d appends, want 100", seen)
	}
}

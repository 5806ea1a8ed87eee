package catalog

import (
	"errors"
	"fmt"
	"testing"

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

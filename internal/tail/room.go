package tail

import "sync"

// room lets any number of goroutines wait until memory is given back. The zero
// value is ready to use.
type room struct {
	mu    sync.Mutex // leaf
	freed chan struct{}
}

// wait gives a channel that the next call of announce closes.
func (r *room) wait() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed == nil {
		r.freed = make(chan struct{})
	}
	return r.freed
}

// announce wakes all who wait.
func (r *room) announce() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}

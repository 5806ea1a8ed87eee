package tail

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/oncelog/oncelog/internal/invariant"
	"github.com/oncelog/oncelog/internal/vfs"
)

// Tail is the newest bytes of one segment, in memory, over the segment's file.
// It is that file for readers: what a chunk covers they get from memory.
//
// Appender stands for whoever holds the log's append lock, writer for whoever
// holds the segment's write lock: of each there is one at a time, and both may
// be at work at once, beside any number of readers. Methods say whose they are;
// those that do not are everybody's.
type Tail struct {
	// Set by New.
	file vfs.File
	id   Identity

	// Invariant: the chunks are in order of position and do not overlap. What
	// was put and is in no chunk is in the file: a chunk is taken out of the
	// list after its last byte was written, and loses its memory after that.
	chunks atomic.Pointer[[]*Chunk]
	mu     sync.Mutex // leaf: guards replacing chunks

	current *Chunk // of chunks, the one that takes more; appender only
	recent  int    // bytes put since the tail was last idle; appender only

	failed error // of the first write that failed; writer only
}

var _ vfs.File = (*Tail)(nil)

// New makes an empty tail over a file, which belongs to it from now on.
func New(file vfs.File, id Identity) *Tail {
	t := &Tail{file: file, id: id}
	t.chunks.Store(new([]*Chunk))
	return t
}

// Room is the size of the largest batch that Put takes now; 0 if there is no
// current chunk. Appender only.
func (t *Tail) Room() int {
	if t.current == nil {
		return 0
	}
	return t.current.room()
}

// RoomFor is the Room that batches of size bytes together may need: over Slots
// every batch takes a little more than its bytes.
func RoomFor(size, batches int) int { return size + (batches-1)*descriptorSize }

// Grow closes the current chunk and takes another from s, for a batch of size
// bytes with base offset offset that will be put at position pos, and what
// follows it. False if s has none now: then there is no current chunk, and the
// closed one is memory that a WriteBack gives back. Appender only.
func (t *Tail) Grow(s Source, pos, offset int64, size int) bool {
	t.Skip()
	c := s.Take(t.id, pos, offset, size, t.recent)
	if c == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	list := *t.chunks.Load()
	if n := len(list); n > 0 && list[n-1].end() > pos {
		invariant.Check(false, "a chunk from %d after one that ends at %d", pos, list[n-1].end())
	}
	grown := append(slices.Clip(slices.Clone(list)), c)
	t.chunks.Store(&grown)
	t.current = c
	return true
}

// Put copies one whole batch, given in any number of buffers, to position pos,
// where the current chunk ends, and publishes it to readers; it must not be
// larger than Room. Over Slots it survives the end of the process from then on.
// It keeps no buffer and allocates nothing. Appender only.
func (t *Tail) Put(bufs [][]byte, pos int64) {
	c, size := t.current, 0
	for _, buf := range bufs {
		size += len(buf)
	}
	if c == nil || pos != c.end() || size > c.room() {
		invariant.Check(false, "a batch of %d bytes put at %d: no room there", size, pos)
	}
	t.recent = min(t.recent+size, ChunkBytesMax)
	c.put(bufs)
}

// Skip closes the current chunk, if there is one, because the next batch goes
// straight to the file. Appender only.
func (t *Tail) Skip() {
	if t.current != nil {
		t.current.closed.Store(true)
		t.current = nil
	}
}

// Drop gives back the memory of every chunk that is written whole, the current
// one included: for a log that is idle, sealed, or goes on in its file. It
// reports whether no memory is left. Chunks with unwritten bytes stay as they
// are. Appender only.
func (t *Tail) Drop() bool {
	t.recent = 0
	if c := t.current; c != nil && c.written.Load() == c.filled.Load() {
		t.Skip()
	}
	t.dropDrained()
	return len(*t.chunks.Load()) == 0
}

// dropDrained drops the chunks that are closed and written whole.
func (t *Tail) dropDrained() { t.dropIf((*Chunk).drained) }

// dropIf takes out of the list what away says, then drops it. Several may do so
// at once: a chunk is dropped by the one that took it out.
func (t *Tail) dropIf(away func(*Chunk) bool) {
	if list := *t.chunks.Load(); !slices.ContainsFunc(list, away) {
		return
	}
	for _, c := range t.takeOut(away) {
		c.drop()
	}
}

func (t *Tail) takeOut(away func(*Chunk) bool) (out []*Chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := *t.chunks.Load()
	kept := make([]*Chunk, 0, len(list))
	for _, c := range list {
		if away(c) {
			out = append(out, c)
		} else {
			kept = append(kept, c)
		}
	}
	t.chunks.Store(&kept)
	return out
}

// MemoryBytes is the memory that the chunks take.
func (t *Tail) MemoryBytes() int64 {
	var total int64
	for _, c := range *t.chunks.Load() {
		total += int64(c.size)
	}
	return total
}

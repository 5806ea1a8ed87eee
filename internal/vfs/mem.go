package vfs

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory that knows what is durable: CrashClone gives
// what a power loss would leave, KillClone what the end of the process would.
// It starts with an empty root, which is both "/" and "."; names are relative
// to it, with or without a slash in front. Permissions are kept, not enforced.
// A rename stays in its directory.
//
// While a file is mapped, it can be mapped again only as far as it was written,
// mapped or at most 1 MiB long when the oldest of these mappings was made.
type Mem struct {
	mu    sync.RWMutex // guards all below and everything reached from root, but memory of mappings
	root  *node
	space space
	clock func() time.Time
	place Place
}

// NewMem makes an empty file system without a limit on its size.
func NewMem() *Mem {
	return &Mem{root: &node{dir: newDirectory(time.Time{}), mode: fs.ModeDir | 0o755}, clock: time.Now, place: Place{Name: "memory"}}
}

// SetCapacity limits the blocks of all files together to capacity bytes: what
// needs more gets ENOSPC. 0 lifts the limit.
func (m *Mem) SetCapacity(capacity int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.space.capacity = int(capacity / pageSize)
	m.space.limited = capacity > 0
}

// Used is the bytes of all blocks in use.
func (m *Mem) Used() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return int64(m.space.used) * pageSize
}

// SetClock gives the clock of modification times; it starts as time.Now. The
// clock is called with the lock held.
func (m *Mem) SetClock(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock = now
}

// SetPlace makes the file system say that it is another one.
func (m *Mem) SetPlace(p Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.place = p
}

// Place implements FS: a local disk unless SetPlace said otherwise. The boot
// identifier is another one in every CrashClone.
func (m *Mem) Place(dir string) (Place, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.find("statfs", dir); err != nil {
		return Place{}, err
	}
	return m.place, nil
}

// space counts the blocks of the disk, each as large as a page.
type space struct {
	used, capacity int
	limited        bool
}

func (s *space) take(n int) error {
	if s.limited && n > 0 && s.used+n > s.capacity {
		return syscall.ENOSPC
	}
	s.used += n
	return nil
}

func (s *space) give(n int) { s.used -= n }

// cloneLocked makes a Mem of a tree that is m's, cloned.
func (m *Mem) cloneLocked(root *node) *Mem {
	c := &Mem{root: root, clock: m.clock, place: m.place}
	c.space = space{capacity: m.space.capacity, limited: m.space.limited}
	root.walk(func(n *node) {
		if n.file != nil {
			n.file.links = 1
			c.space.used += n.file.charged
		}
	})
	return c
}

// clean gives the path from the root, without a slash in front; the root is "".
func clean(name string) string { return path.Clean("/" + name)[1:] }

// find gives the node of a name.
func (m *Mem) find(op, name string) (*node, error) {
	n := m.root
	for rest := clean(name); rest != ""; {
		var first string
		first, rest, _ = strings.Cut(rest, "/")
		if n.dir == nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
		}
		next, ok := n.dir.entries[first]
		if !ok {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
		}
		n = next
	}
	return n, nil
}

// parent gives the directory of a name and the last part of the name.
func (m *Mem) parent(op, name string) (*directory, string, error) {
	full := clean(name)
	if full == "" || name == "" {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: rootErr(name)}
	}
	dir, base := path.Split(full)
	n, err := m.find(op, dir)
	if err == nil && n.dir == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: cause(err)}
	}
	return n.dir, base, nil
}

// rootErr is the error of a call that cannot be made on the root, or on no
// name at all.
func rootErr(name string) error {
	if name == "" {
		return syscall.ENOENT
	}
	return syscall.EBUSY
}

// cause takes the number out of an error of find.
func cause(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile implements FS.
func (m *Mem) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.openLocked(name, flag, perm)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: cause(err)}
	}
	return f, nil
}

func (m *Mem) openLocked(name string, flag int, perm fs.FileMode) (*memFile, error) {
	if clean(name) == "" && name != "" {
		return nil, syscall.EISDIR
	}
	d, base, err := m.parent("open", name)
	if err != nil {
		return nil, err
	}
	n, ok := d.entries[base]
	writable := flag&(os.O_WRONLY|os.O_RDWR) != 0
	switch {
	case !ok && flag&os.O_CREATE == 0:
		return nil, syscall.ENOENT
	case !ok:
		now := m.clock()
		n = &node{file: &content{modified: now, links: 1}, mode: perm.Perm()}
		d.do(change{kind: changeLink, node: n, name: base}, now)
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, syscall.EEXIST
	case n.dir != nil:
		return nil, syscall.EISDIR
	case flag&os.O_TRUNC != 0 && writable:
		n.file.truncate(&m.space, 0)
		n.file.modified = m.clock()
	}
	n.file.handles++
	return &memFile{mem: m, content: n.file, name: name, readable: flag&os.O_WRONLY == 0, writable: writable}, nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.parent("remove", name)
	if err != nil {
		return err
	}
	n, ok := d.entries[base]
	switch {
	case !ok:
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOENT}
	case n.dir != nil && len(n.dir.entries) > 0:
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	d.do(change{kind: changeUnlink, node: n, name: base}, m.clock())
	m.unlinked(n)
	return nil
}

// unlinked is called when a name of n is gone.
func (m *Mem) unlinked(n *node) {
	if n.file != nil {
		n.file.links--
		m.releaseSpace(n.file)
	}
}

// releaseSpace gives the blocks of a file back that nobody can reach.
func (m *Mem) releaseSpace(c *content) {
	if c.links == 0 && c.handles == 0 {
		m.space.give(c.charged)
		c.charged = 0
	}
}

// Rename implements FS, inside one directory.
func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.renameLocked(oldname, newname); err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: cause(err)}
	}
	return nil
}

func (m *Mem) renameLocked(oldname, newname string) error {
	d, oldBase, err := m.parent("rename", oldname)
	if err != nil {
		return err
	}
	n, ok := d.entries[oldBase]
	if !ok {
		return syscall.ENOENT
	}
	newDir, newBase, err := m.parent("rename", newname)
	if err != nil {
		return err
	}
	if newDir != d {
		return syscall.EXDEV
	}
	over, ok := d.entries[newBase]
	switch {
	case ok && over == n:
		return nil
	case ok && over.dir != nil:
		return syscall.EEXIST
	case ok && n.dir != nil:
		return syscall.ENOTDIR
	}
	d.do(change{kind: changeRename, node: n, name: oldBase, to: newBase}, m.clock())
	if ok {
		m.unlinked(over)
	}
	return nil
}

// Mkdir implements FS.
func (m *Mem) Mkdir(name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if clean(name) == "" && name != "" {
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.EEXIST}
	}
	d, base, err := m.parent("mkdir", name)
	if err != nil {
		return err
	}
	if _, ok := d.entries[base]; ok {
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.EEXIST}
	}
	now := m.clock()
	n := &node{dir: newDirectory(now), mode: fs.ModeDir | perm.Perm()}
	d.do(change{kind: changeLink, node: n, name: base}, now)
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	d, err := m.directory("open", name)
	if err != nil {
		return nil, err
	}
	entries := make([]fs.DirEntry, 0, len(d.entries))
	for _, base := range slices.Sorted(maps.Keys(d.entries)) {
		entries = append(entries, fs.FileInfoToDirEntry(d.entries[base].info(base)))
	}
	return entries, nil
}

// directory gives the directory of a name.
func (m *Mem) directory(op, name string) (*directory, error) {
	n, err := m.find(op, name)
	if err == nil && name == "" {
		err = &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
	}
	if err != nil {
		return nil, err
	}
	if n.dir == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
	}
	return n.dir, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find("stat", name)
	if err == nil && name == "" {
		err = &fs.PathError{Op: "stat", Path: name, Err: syscall.ENOENT}
	}
	if err != nil {
		return nil, err
	}
	return n.info(path.Base(name)), nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.directory("open", name)
	if err != nil {
		return err
	}
	d.sync()
	return nil
}

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	l, err := m.takeLock(name)
	if err != nil {
		return nil, err
	}
	if err := noteHolder(l.f); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// takeLock opens and locks in one step, so that the name cannot lead to another
// file in between.
func (m *Mem) takeLock(name string) (*memLock, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.openLocked(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: cause(err)}
	}
	if f.content.locked {
		f.closed = true
		m.closeLocked(f.content)
		return nil, lockedError(name, holder{pid: os.Getpid()})
	}
	f.content.locked = true
	return &memLock{f: f}, nil
}

// info describes n.
func (n *node) info(base string) fs.FileInfo {
	if n.dir != nil {
		return memInfo{name: base, mode: n.mode, modified: n.dir.modified}
	}
	return memInfo{name: base, mode: n.mode, size: n.file.size, modified: n.file.modified}
}

// memInfo is fs.FileInfo.
type memInfo struct {
	name     string
	size     int64
	mode     fs.FileMode
	modified time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.modified }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }

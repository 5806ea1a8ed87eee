package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/oncelog/oncelog/internal/topic"
)

// What a catalog refuses or reports, beside log.ErrClosed, log.ErrReadOnly and
// vfs.ErrLocked. Test with errors.Is.
var (
	// ErrUnknownPartition: there is no such topic, or the topic has no such
	// partition here.
	ErrUnknownPartition = errors.New("catalog: unknown topic or partition")
	// ErrTopicExists: the name is taken.
	ErrTopicExists = errors.New("catalog: topic exists")
	// ErrInvalidConfig: a topic's configuration contradicts itself.
	ErrInvalidConfig = errors.New("catalog: invalid topic configuration")
	// ErrInternalTopic: the topic is one of Kafka's own, whose partitions are
	// never changed.
	ErrInternalTopic = errors.New("catalog: internal topic")
	// ErrPartitionMissing: the directory of a partition that was made here is
	// gone, or belongs to another topic.
	ErrPartitionMissing = errors.New("catalog: partition directory missing")
	// ErrManifest: the manifest is damaged; see *ManifestError.
	ErrManifest = errors.New("catalog: damaged manifest")
	// ErrJournalMissing: the manifest says that appends went through the commit
	// journal, and it is gone.
	ErrJournalMissing = errors.New("catalog: the commit journal is missing: put oncelog.journal back, with the directory it belongs to")
	// ErrTailMissing: likewise of the mapped tail.
	ErrTailMissing = errors.New("catalog: the mapped tail is missing: put oncelog.tail back, with the directory it belongs to")
	// ErrNewerFormat: the directory was written by a newer version.
	ErrNewerFormat = errors.New("catalog: written by a newer version of oncelog")
)

// ManifestError tells what is wrong with a manifest. It unwraps to ErrManifest.
type ManifestError struct {
	File   string // "" until the reader of the file adds it
	Reason string
}

func (e *ManifestError) Error() string {
	return fmt.Sprintf("%v %s: %s", ErrManifest, e.File, e.Reason)
}

func (e *ManifestError) Unwrap() error { return ErrManifest }

// advice is what a person can do about an error of the file system, "" if
// nothing general can be said.
func advice(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "; give this user read and write permission on the directory and all in it, or open it read-only"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "; the device is full: free space and open it again"
	case errors.Is(err, syscall.EROFS):
		return "; the file system is read-only: open the directory read-only, or mount it writable"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "; too many open files: raise the limit (ulimit -n)"
	}
	return ""
}

// confined tells whether an error of the file system says something about one
// file: a bad sector, a permission, a name that is not what it should be. What
// concerns the process or the device (descriptors, memory, space) is not.
func confined(err error) bool {
	for _, wide := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		if errors.Is(err, wide) {
			return false
		}
	}
	for _, narrow := range []error{syscall.EIO, fs.ErrPermission, syscall.EISDIR, syscall.ENOTDIR, syscall.ELOOP, syscall.EBADMSG, errDirty} {
		if errors.Is(err, narrow) {
			return true
		}
	}
	return false
}

// errDirty is EUCLEAN, which not every system names: a file system found itself
// damaged.
const errDirty = syscall.Errno(117)

// unusable is what a partition refuses with whose files cannot be worked with.
func unusable(tp topic.Partition, err error) error {
	return fmt.Errorf("use the files of %s: %w; repair that, then reopen the partition", tp, err)
}

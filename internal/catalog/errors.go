package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
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

package tail

import (
	"errors"
	"fmt"
)

// ErrNewerFormat says that a later version of this program made the tail file.
var ErrNewerFormat = errors.New("tail: file of a newer version")

// ErrTaken says that slots still hold bytes that are not in any segment, so that
// the tail file was not removed.
var ErrTaken = errors.New("tail: slots are still taken")

// FormatError says that a file is no tail file of ours, or a damaged one.
type FormatError struct {
	File   string
	Pos    int64 // of what is wrong, in bytes
	Reason string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("tail: %s is damaged at byte %d: %s", e.File, e.Pos, e.Reason)
}

// SlotError says that a slot does not hold what a process of this boot published
// in it: memory that survives the end of a process was damaged.
type SlotError struct {
	File     string
	Pos      int64 // of what is wrong, in bytes
	Slot     int
	Identity Identity // zero if the header of the slot is what is damaged
	Reason   string
}

func (e *SlotError) Error() string {
	if e.Identity == (Identity{}) {
		return fmt.Sprintf("tail: %s: slot %d is damaged at byte %d: %s", e.File, e.Slot, e.Pos, e.Reason)
	}
	return fmt.Sprintf("tail: %s: slot %d of topic %x partition %d segment %d is damaged at byte %d: %s",
		e.File, e.Slot, e.Identity.Topic, e.Identity.Partition, e.Identity.Segment, e.Pos, e.Reason)
}

package segment

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is what a file of a partition directory holds.
type Kind uint8

const (
	KindLog Kind = iota
	KindOffsetIndex
	KindTimeIndex
	KindTxnIndex
	KindSnapshot
	kinds
)

var extensions = [kinds]string{".log", ".index", ".timeindex", ".txnindex", ".snapshot"}

// Suffix tells in which state of its life a file is.
type Suffix uint8

const (
	SuffixNone    Suffix = iota
	SuffixDeleted        // replaced or expired, waits for removal
	SuffixCleaned        // output of an unfinished cleaning
	SuffixSwap           // complete replacement, swap in progress
	suffixes
)

var suffixNames = [suffixes]string{"", ".deleted", ".cleaned", ".swap"}

// PreparedName is the file that becomes the next segment: made, allocated and
// synced ahead of the roll, which only renames it. Kafka ignores the name; a
// clean close leaves none, and opening removes one that a crash left.
const PreparedName = "oncelog.next"

// tempSuffix is that of a file that is being written and will be renamed.
const tempSuffix = ".tmp"

// offsetDigits is the width of an offset in a file name.
const offsetDigits = 20

// Name is a parsed file name.
type Name struct {
	Offset int64 // base offset; of a snapshot the offset it ends at, exclusive
	Kind   Kind
	Suffix Suffix
}

// String is the file name.
func (n Name) String() string {
	return fmt.Sprintf("%0*d%s%s", offsetDigits, n.Offset, extensions[n.Kind], suffixNames[n.Suffix])
}

// FileName is the name of a live file.
func FileName(offset int64, k Kind) string { return Name{Offset: offset, Kind: k}.String() }

// CutName is the name under which a torn tail that started at byte pos of a
// segment file is kept; unixMilli makes it unique. Kafka ignores the name.
func CutName(base, unixMilli int64) string {
	return fmt.Sprintf("%s.%d.cut", FileName(base, KindLog), unixMilli)
}

// ParseName reads a file name. ok is false for files that belong to no
// segment: checkpoints, metadata, kept cuts, anything foreign.
func ParseName(name string) (n Name, ok bool) {
	digits, rest, found := strings.Cut(name, ".")
	if !found || digits == "" {
		return Name{}, false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return Name{}, false
		}
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return Name{}, false
	}
	rest = "." + rest
	for k, ext := range extensions {
		tail, has := strings.CutPrefix(rest, ext)
		if !has {
			continue
		}
		for s, suffix := range suffixNames {
			if tail == suffix {
				return Name{Offset: offset, Kind: Kind(k), Suffix: Suffix(s)}, true
			}
		}
	}
	return Name{}, false
}

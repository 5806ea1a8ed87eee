// Package topic names topics and their partitions, and knows how Kafka names
// the directory of a partition.
//
// All of it is pure and safe for concurrent use.
package topic

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Names of Kafka's internal topics that a log directory may hold.
const (
	TransactionState = "__transaction_state"
	ConsumerOffsets  = "__consumer_offsets"
	ClusterMetadata  = "__cluster_metadata"
)

// NameBytesMax is the longest topic name that Kafka takes.
const NameBytesMax = 249

// ErrInvalidName says that a topic name is not one that Kafka would take.
var ErrInvalidName = errors.New("topic: invalid name")

// ErrNotPartition says that a directory name is not that of a partition.
var ErrNotPartition = errors.New("topic: not the directory of a partition")

// Partition is one partition of a topic. It is comparable: use it as a key.
type Partition struct {
	Topic string
	Index int32
}

// String is the name of the partition's directory: topic, "-", index.
func (p Partition) String() string {
	return p.Topic + "-" + strconv.Itoa(int(p.Index))
}

// Compare orders partitions by topic, then by index.
func (p Partition) Compare(q Partition) int {
	if c := strings.Compare(p.Topic, q.Topic); c != 0 {
		return c
	}
	return int(p.Index) - int(q.Index)
}

// Internal tells whether the topic is one of Kafka's own.
func (p Partition) Internal() bool {
	return p.Topic == TransactionState || p.Topic == ConsumerOffsets
}

// ParseDir reads the name of a partition's directory, split at its last "-".
// Directories that are pending deletion, stray or the target of a replica
// move ("-delete", "-stray", "-future"), the cluster metadata log, and
// anything else that is no partition give ErrNotPartition.
func ParseDir(name string) (Partition, error) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 || i == len(name)-1 {
		return Partition{}, fmt.Errorf("%w: %q", ErrNotPartition, name)
	}
	digits := name[i+1:]
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != digits {
		return Partition{}, fmt.Errorf("%w: %q", ErrNotPartition, name)
	}
	p := Partition{Topic: name[:i], Index: int32(n)}
	if p.Topic == ClusterMetadata || CheckName(p.Topic) != nil {
		return Partition{}, fmt.Errorf("%w: %q", ErrNotPartition, name)
	}
	return p, nil
}

// CheckName tells whether Kafka would take name for a topic.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidName)
	case name == "." || name == "..":
		return fmt.Errorf("%w: %q", ErrInvalidName, name)
	case len(name) > NameBytesMax:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrInvalidName, len(name), NameBytesMax)
	}
	for i := range len(name) {
		c := name[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !ok {
			return fmt.Errorf("%w: %q holds %q; letters, digits, '.', '_' and '-' are allowed", ErrInvalidName, name, c)
		}
	}
	return nil
}

// Collide tells whether two names differ, but not in Kafka's metrics, where '.'
// and '_' are one character: Kafka does not make a topic beside such another.
func Collide(a, b string) bool {
	return a != b && strings.ReplaceAll(a, ".", "_") == strings.ReplaceAll(b, ".", "_")
}

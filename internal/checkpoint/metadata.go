package checkpoint

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// PartitionMetadataFile is the name of the file with the topic's id in the
// directory of a partition.
const PartitionMetadataFile = "partition.metadata"

// topicIDChars is the length of a topic id as text.
const topicIDChars = 22

// TopicID is the id that Kafka gives a topic once and for all, 16 bytes; all
// zero is none. It is comparable.
type TopicID [16]byte

// String is the id as Kafka writes it: 22 characters of unpadded base64 with
// the URL alphabet.
func (t TopicID) String() string { return base64.RawURLEncoding.EncodeToString(t[:]) }

// ParseTopicID reads what String gives. The error wraps ErrFormat.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	var room [topicIDChars]byte
	if len(s) == topicIDChars {
		// The decoder skips line ends, and then gives fewer bytes.
		n, err := base64.RawURLEncoding.Strict().Decode(room[:], []byte(s))
		if err == nil && n == len(id) {
			copy(id[:], room[:n])
			return id, nil
		}
	}
	return id, &FormatError{Line: 1, Reason: excerpt(s) + " is no topic id (22 characters of base64, URL alphabet)"}
}

// PartitionMetadata is the content of a partition.metadata file.
type PartitionMetadata struct {
	Version int32
	TopicID TopicID
}

// ReadPartitionMetadata reads a partition.metadata file of any version from 0
// on, as Kafka does; it refuses the id of zeros. The error is a *FormatError.
func ReadPartitionMetadata(b []byte) (PartitionMetadata, error) {
	s := &lines{rest: b}
	text, err := s.property("version")
	if err != nil {
		return PartitionMetadata{}, err
	}
	v, err := s.number("version", text, 32)
	if err != nil {
		return PartitionMetadata{}, err
	}
	text, err = s.property("topic_id")
	if err != nil {
		return PartitionMetadata{}, err
	}
	id, err := ParseTopicID(text)
	if err != nil {
		return PartitionMetadata{}, s.errorf("%s is no topic id (22 characters of base64, URL alphabet)", excerpt(text))
	}
	if id == (TopicID{}) {
		return PartitionMetadata{}, s.errorf("the topic id is all zeros")
	}
	return PartitionMetadata{Version: int32(v), TopicID: id}, nil
}

// property reads the next line, which must be "name: value".
func (s *lines) property(name string) (string, error) {
	line, ok := s.next()
	if !ok {
		return "", s.errorf("the file ends before %q", name)
	}
	got, value, ok := strings.Cut(line, ":")
	trimmed := strings.TrimSpace(value)
	if !ok || strings.TrimSpace(got) != name || trimmed == "" || value[0] != ' ' && value[0] != '\t' {
		return "", s.errorf("want %q, got %s", name+": …", excerpt(line))
	}
	return trimmed, nil
}

// AppendPartitionMetadata appends the file to dst. It has no line end at its
// end, as Kafka writes it.
func AppendPartitionMetadata(dst []byte, m PartitionMetadata) []byte {
	dst = append(dst, "version: "...)
	dst = strconv.AppendInt(dst, int64(m.Version), 10)
	dst = append(dst, "\ntopic_id: "...)
	return append(dst, m.TopicID.String()...)
}

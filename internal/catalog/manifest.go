package catalog

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/checkpoint"
	"github.com/oncelog/oncelog/internal/journal"
	"github.com/oncelog/oncelog/internal/tail"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/internal/vfs"
	"github.com/oncelog/oncelog/log"
)

// manifestVersion is the one this program writes, and the newest it reads.
const manifestVersion = 1

// manifest is what is known about topics beside their directories. Values of
// it are not modified once they are written: a change makes a copy.
//
// The file is one JSON object, indented, which begins and ends so in every
// version:
//
//	{
//	  "version": 1,
//	  …
//	  "checksum": "0123456789abcdef"
//	}
//
// The checksum is xxHash64 of all bytes before the line that holds it. It is
// looked at before anything is parsed.
type manifest struct {
	memory    memoryState
	topics    []manifestTopic    // ascending by name
	deletions []manifestDeletion // topics whose directories are being removed
	ids       idRange            // of producers, handed out here
}

type manifestTopic struct {
	name       string
	id         checkpoint.TopicID // zero if Kafka gave it none
	partitions int32              // indexes are below
	foreign    bool               // found in the directory, not made here
	compacted  bool               // was or may have been compacted: its offsets have gaps
	config     *TopicConfig       // nil: none stored
}

type manifestDeletion struct {
	name       string
	id         checkpoint.TopicID
	partitions int32
}

// memoryState says what is in use beside Kafka's files while the store is open,
// and after a crash.
type memoryState struct {
	journal bool // what appends at DurabilityFsync wrote
	tail    bool // what appends at DurabilityOS wrote
	// durability is the level of the topics that say nothing else, as long as
	// either is in use: recovery has to know it.
	durability log.Durability
	// store names this use of them, in their headers too: those of another
	// directory are known by it. Zero: not recorded.
	store [16]byte
}

// withMemory is the manifest with another state of memory.
func (m *manifest) withMemory(s memoryState) *manifest {
	n := *m
	n.memory = s
	return &n
}

func (m *manifest) find(name string) (int, bool) {
	return slices.BinarySearchFunc(m.topics, name, func(t manifestTopic, name string) int { return cmp.Compare(t.name, name) })
}

// with is the manifest with a topic entered or replaced.
func (m *manifest) with(t manifestTopic) *manifest {
	n := *m
	n.topics = slices.Clone(m.topics)
	i, found := n.find(t.name)
	if found {
		n.topics[i] = t
	} else {
		n.topics = slices.Insert(n.topics, i, t)
	}
	return &n
}

// without is the manifest with a topic on its way out.
func (m *manifest) without(name string) *manifest {
	n := *m
	n.topics, n.deletions = slices.Clone(m.topics), slices.Clone(m.deletions)
	if i, found := n.find(name); found {
		t := n.topics[i]
		n.topics = slices.Delete(n.topics, i, i+1)
		n.deletions = append(n.deletions, manifestDeletion{name: name, id: t.id, partitions: t.partitions})
	}
	return &n
}

// deleted is the manifest without a deletion that is finished.
func (m *manifest) deleted(d manifestDeletion) *manifest {
	n := *m
	n.deletions = slices.DeleteFunc(slices.Clone(m.deletions), func(o manifestDeletion) bool { return o == d })
	return &n
}

// The file as JSON.
type (
	manifestJSON struct {
		Version   int            `json:"version"`
		Memory    *memoryJSON    `json:"memory,omitempty"`
		Topics    []topicJSON    `json:"topics"`
		Deletions []deletionJSON `json:"deletions,omitempty"`
		IDs       *idsJSON       `json:"producer_ids,omitempty"`
		Checksum  string         `json:"checksum"`
	}
	memoryJSON struct {
		Journal    bool   `json:"journal,omitempty"`
		Tail       bool   `json:"tail,omitempty"`
		Durability string `json:"durability"`
		Store      string `json:"store,omitempty"`
	}
	idsJSON struct {
		First int64 `json:"first"`
		End   int64 `json:"end"`
	}
	topicJSON struct {
		Name       string      `json:"name"`
		ID         string      `json:"id,omitempty"`
		Partitions int32       `json:"partitions"`
		Foreign    bool        `json:"foreign,omitempty"`
		Compacted  bool        `json:"compacted,omitempty"`
		Config     *configJSON `json:"config,omitempty"`
	}
	deletionJSON struct {
		Name       string `json:"name"`
		ID         string `json:"id,omitempty"`
		Partitions int32  `json:"partitions"`
	}
	configJSON struct {
		Durability         string `json:"durability,omitempty"`
		Cleanup            string `json:"cleanup,omitempty"`
		RetentionAge       string `json:"retention_age,omitempty"`
		RetentionBytes     int64  `json:"retention_bytes,omitempty"`
		SegmentBytes       int64  `json:"segment_bytes,omitempty"`
		SegmentAge         string `json:"segment_age,omitempty"`
		BatchBytesMax      int    `json:"batch_bytes_max,omitempty"`
		LogAppendTime      bool   `json:"log_append_time,omitempty"`
		TimestampBeforeMax string `json:"timestamp_before_max,omitempty"`
		TimestampAfterMax  string `json:"timestamp_after_max,omitempty"`
		IndexIntervalBytes int    `json:"index_interval_bytes,omitempty"`
	}
)

// The end of the file: the line with the checksum, and the brace.
const (
	checksumHead  = "  \"checksum\": \""
	checksumChars = 16
	checksumTail  = "\"\n}\n"
)

func checksum(b []byte) string { return fmt.Sprintf("%016x", xxhash.Sum64(b)) }

// encode gives the file.
func (m *manifest) encode() ([]byte, error) {
	file := manifestJSON{Version: manifestVersion, Topics: []topicJSON{}, Checksum: checksum(nil)}
	if s := m.memory; s.journal || s.tail {
		file.Memory = &memoryJSON{Journal: s.journal, Tail: s.tail, Durability: s.durability.String()}
		if s.store != ([16]byte{}) {
			file.Memory.Store = hex.EncodeToString(s.store[:])
		}
	}
	if m.ids != (idRange{}) {
		file.IDs = &idsJSON{m.ids.first, m.ids.end}
	}
	for _, t := range m.topics {
		file.Topics = append(file.Topics, topicJSON{Name: t.name, ID: encodeID(t.id), Partitions: t.partitions,
			Foreign: t.foreign, Compacted: t.compacted, Config: encodeConfig(t.config)})
	}
	for _, d := range m.deletions {
		file.Deletions = append(file.Deletions, deletionJSON{Name: d.name, ID: encodeID(d.id), Partitions: d.partitions})
	}
	b, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, err
	}
	b = b[:len(b)+1-len(checksumHead)-checksumChars-len(checksumTail)]
	return fmt.Appendf(b, "%s%s%s", checksumHead, checksum(b), checksumTail), nil
}

// decodeManifest reads the file. Errors: *ManifestError; ErrNewerFormat.
func decodeManifest(b []byte) (*manifest, error) {
	bad := func(format string, args ...any) error { return &ManifestError{Reason: fmt.Sprintf(format, args...)} }
	n := len(b) - len(checksumHead) - checksumChars - len(checksumTail)
	if n < 0 {
		return nil, bad("%d bytes are too few", len(b))
	}
	if want := checksumHead + checksum(b[:n]) + checksumTail; string(b[n:]) != want {
		return nil, bad("the checksum does not match")
	}
	var head struct{ Version int }
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, bad("%v", err)
	}
	if head.Version > manifestVersion {
		return nil, fmt.Errorf("%w: %s has version %d, this program reads up to %d; use a newer one", ErrNewerFormat, ManifestFile, head.Version, manifestVersion)
	}
	var file manifestJSON
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, bad("%v", err)
	}
	if _, err := d.Token(); err != io.EOF || file.Version < 1 {
		return nil, bad("version %d, or bytes behind its end", file.Version)
	}
	m, err := file.manifest()
	if err != nil {
		return nil, bad("%v", err)
	}
	return m, nil
}

func (file *manifestJSON) manifest() (*manifest, error) {
	m := &manifest{}
	if s := file.Memory; s != nil {
		m.memory = memoryState{journal: s.Journal, tail: s.Tail}
		var err error
		if m.memory.durability, err = decodeDurability(s.Durability); err != nil {
			return nil, err
		}
		id, err := hex.DecodeString(s.Store)
		if err != nil || len(id) != 0 && len(id) != len(m.memory.store) {
			return nil, &ManifestError{Reason: fmt.Sprintf("the store of memory is %q, want 32 hexadecimal digits", s.Store)}
		}
		copy(m.memory.store[:], id)
	}
	if r := file.IDs; r != nil {
		m.ids = idRange{r.First, r.End}
		if r.First < 0 || r.End <= r.First {
			return nil, fmt.Errorf("producer ids from %d to %d", r.First, r.End)
		}
	}
	for _, t := range file.Topics {
		id, err := decodeID(t.Name, t.ID, t.Partitions)
		if err != nil {
			return nil, err
		}
		config, err := decodeConfig(t.Config)
		if err != nil {
			return nil, fmt.Errorf("topic %q: %w", t.Name, err)
		}
		i, found := m.find(t.Name)
		if found {
			return nil, fmt.Errorf("topic %q is there twice", t.Name)
		}
		m.topics = slices.Insert(m.topics, i, manifestTopic{name: t.Name, id: id, partitions: t.Partitions, foreign: t.Foreign, compacted: t.Compacted, config: config})
	}
	for _, d := range file.Deletions {
		id, err := decodeID(d.Name, d.ID, d.Partitions)
		if err != nil {
			return nil, err
		}
		m.deletions = append(m.deletions, manifestDeletion{name: d.Name, id: id, partitions: d.Partitions})
	}
	return m, nil
}

func encodeID(id checkpoint.TopicID) string {
	if id == (checkpoint.TopicID{}) {
		return ""
	}
	return id.String()
}

// decodeID checks what names a topic.
func decodeID(name, text string, partitions int32) (id checkpoint.TopicID, err error) {
	if err := topic.CheckName(name); err != nil {
		return id, err
	}
	if partitions < 0 {
		return id, fmt.Errorf("topic %q has %d partitions", name, partitions)
	}
	if text != "" {
		id, err = checkpoint.ParseTopicID(text)
	}
	return id, err
}

func encodeDuration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func encodeConfig(t *TopicConfig) *configJSON {
	if t == nil {
		return nil
	}
	c := &configJSON{
		Cleanup: t.Cleanup.String(), RetentionAge: encodeDuration(t.RetentionAge), RetentionBytes: t.RetentionBytes,
		SegmentBytes: t.SegmentBytes, SegmentAge: encodeDuration(t.SegmentAge), BatchBytesMax: t.BatchBytesMax,
		LogAppendTime:      t.Timestamps == batch.LogAppendTime,
		TimestampBeforeMax: encodeDuration(t.TimestampBeforeMax), TimestampAfterMax: encodeDuration(t.TimestampAfterMax),
		IndexIntervalBytes: t.IndexIntervalBytes,
	}
	if t.Durability != log.DurabilityDefault {
		c.Durability = t.Durability.String()
	}
	return c
}

func decodeConfig(c *configJSON) (*TopicConfig, error) {
	if c == nil {
		return nil, nil
	}
	t := &TopicConfig{RetentionBytes: c.RetentionBytes, SegmentBytes: c.SegmentBytes, BatchBytesMax: c.BatchBytesMax, IndexIntervalBytes: c.IndexIntervalBytes}
	if c.LogAppendTime {
		t.Timestamps = batch.LogAppendTime
	}
	if c.Durability != "" {
		var err error
		if t.Durability, err = decodeDurability(c.Durability); err != nil {
			return nil, err
		}
	}
	i := slices.Index(cleanupNames[:], c.Cleanup)
	if i < 0 {
		return nil, fmt.Errorf("unknown cleanup %q", c.Cleanup)
	}
	t.Cleanup = Cleanup(i)
	for _, d := range []struct {
		to   *time.Duration
		text string
	}{
		{&t.RetentionAge, c.RetentionAge}, {&t.SegmentAge, c.SegmentAge},
		{&t.TimestampBeforeMax, c.TimestampBeforeMax}, {&t.TimestampAfterMax, c.TimestampAfterMax},
	} {
		if d.text == "" {
			continue
		}
		v, err := time.ParseDuration(d.text)
		if err != nil {
			return nil, err
		}
		*d.to = v
	}
	return t, t.Validate()
}

func decodeDurability(text string) (log.Durability, error) {
	for _, d := range []log.Durability{log.DurabilityOS, log.DurabilityFsync} {
		if text == d.String() {
			return d, nil
		}
	}
	return 0, fmt.Errorf("unknown durability %q", text)
}

// readManifest reads the manifest of a directory; one without has an empty
// one.
func readManifest(fsys vfs.FS, dir string) (*manifest, error) {
	path := filepath.Join(dir, ManifestFile)
	b, err := vfs.ReadFile(fsys, path, rootFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return &manifest{}, needless(fsys, dir)
	}
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(b)
	if e, ok := errors.AsType[*ManifestError](err); ok {
		e.File = path
	}
	return m, err
}

// needless tells whether a directory can do without a manifest: there is nothing
// in it that only a manifest could explain.
func needless(fsys vfs.FS, dir string) error {
	for _, name := range []string{journal.Name, journal.RescueName, tail.FileName} {
		_, err := fsys.Stat(filepath.Join(dir, name))
		if err == nil {
			return &ManifestError{File: filepath.Join(dir, ManifestFile), Reason: "it is gone, and " + name +
				" is there, with appends of topics that only the manifest names; put the manifest back"}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// MadeHere gives the partitions of the topics that were made in a directory
// and not deleted, in order: each must have its directory. It reads the
// manifest only; one that is missing names none. Errors: *ManifestError,
// ErrNewerFormat, those of the file system.
func MadeHere(fsys vfs.FS, dir string) ([]topic.Partition, error) {
	m, err := readManifest(fsys, dir)
	if err != nil {
		return nil, err
	}
	var made []topic.Partition
	for _, t := range m.topics {
		for i := int32(0); !t.foreign && i < t.partitions; i++ {
			made = append(made, topic.Partition{Topic: t.name, Index: i})
		}
	}
	return made, nil
}

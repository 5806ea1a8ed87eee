package batch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestMarkerGolden(t *testing.T) {
	b := Batch(unhex(t, goldenCommit))
	want := Marker{Producer: Producer{9000, 7}, Commit: true, CoordinatorEpoch: 42, Timestamp: goldenTime}
	if m, ok, err := ReadMarker(b); m != want || !ok || err != nil {
		t.Errorf("%+v, %v, %v; want %+v", m, ok, err, want)
	}
	got := Batch(AppendMarker([]byte("before"), want)[len("before"):])
	got.Stamp(5, 3)
	if string(got) != string(b) {
		t.Errorf("commit\n%x, want\n%x", got, b)
	}
	want.Commit = false
	abort := Batch(AppendMarker(nil, want))
	abort.Stamp(5, 3)
	if abort.CRC() != 0xfe257448 {
		t.Errorf("abort has CRC %08x, want fe257448", abort.CRC())
	}
	if m, ok, err := ReadMarker(abort); m != want || !ok || err != nil {
		t.Errorf("%+v, %v, %v; want %+v", m, ok, err, want)
	}
}

func TestReadMarker(t *testing.T) {
	control := func(key, value string) Batch {
		o := Plain
		o.Control = true
		o.Producer = Producer{1, 2}
		return build(t, o, plain{0, 7, unhex(t, key), unhex(t, value), nil})
	}
	sarama := func(name string) []byte { return readHex(t, "testdata/captured/sarama/"+name+".hex") }
	captured := func(kind string) Batch {
		o := Plain
		o.Control = true
		return build(t, o, plain{0, 7, sarama(kind + "TxCtrlRecKey"), sarama(kind + "TxCtrlRecValue"), nil})
	}
	for name, c := range map[string]struct {
		b    Batch
		want Marker
		ok   bool
		err  error
	}{
		"data":                      {unhex(t, goldenPlain), Marker{}, false, nil},
		"emptied control batch":     {readHex(t, "testdata/captured/sarama/recordbatch.control_batch.hex"), Marker{}, false, nil},
		"captured commit":           {captured("commit"), Marker{Producer: NoProducer, Commit: true, CoordinatorEpoch: 15, Timestamp: 7}, true, nil},
		"captured abort":            {captured("abort"), Marker{Producer: NoProducer, CoordinatorEpoch: 10, Timestamp: 7}, true, nil},
		"abort":                     {control("0000 0000", "0000 00000009"), Marker{Producer{1, 2}, false, 9, 7}, true, nil},
		"later versions":            {control("0003 0001 ff", "0004 00000009 ff"), Marker{Producer{1, 2}, true, 9, 7}, true, nil},
		"leader change":             {control("0000 0002", "00"), Marker{}, false, nil},
		"unknown type":              {control("0000 0080", ""), Marker{}, false, nil},
		"negative type":             {control("0000 ffff", ""), Marker{}, false, nil},
		"key too short":             {control("000000", "0000 00000009"), Marker{}, false, ErrInvalidRecord},
		"version of key negative":   {control("ffff 0001", "0000 00000009"), Marker{}, false, ErrInvalidRecord},
		"value too short":           {control("0000 0001", "0000 000000"), Marker{}, false, ErrInvalidRecord},
		"version of value negative": {control("0000 0001", "8000 00000009"), Marker{}, false, ErrInvalidRecord},
		"record cut off":            {reseal(control("0000 0001", "0000 00000009")[:70]), Marker{}, false, ErrInvalidRecord},
	} {
		m, ok, err := ReadMarker(c.b)
		if m != c.want || ok != c.ok || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v, %v; want %+v, %v, %v", name, m, ok, err, c.want, c.ok, c.err)
		}
	}
	logAppend := Batch(AppendMarker(nil, Marker{Timestamp: 7}))
	logAppend.SetMaxTimestamp(LogAppendTime, 99)
	if m, ok, err := ReadMarker(logAppend); m.Timestamp != 99 || !ok || err != nil {
		t.Errorf("append time: %+v, %v, %v; want timestamp 99", m, ok, err)
	}
}

// TestKafkaMetadata reads the metadata logs of real controllers: control
// records that are no markers, and types that have a name.
func TestKafkaMetadata(t *testing.T) {
	types := map[string]int{}
	dirs, _ := filepath.Glob(filepath.Join(kafkaDir, "*/meta/__cluster_metadata-0"))
	for _, dir := range dirs {
		for _, b := range kafkaBatches(t, dir) {
			if err := b.Check(); err != nil {
				t.Fatalf("%s: %v", dir, err)
			}
			records := mustReadAll(t, b)
			if !b.IsControl() {
				continue
			}
			if m, ok, err := ReadMarker(b); ok || err != nil {
				t.Errorf("%s: %+v, %v, %v; want no marker", dir, m, ok, err)
			}
			for _, r := range records {
				_, kind, err := ReadControl(r.key)
				if err != nil {
					t.Errorf("%s: %v", dir, err)
				}
				types[kind.String()]++
			}
		}
	}
	if len(dirs) == 0 {
		if _, err := os.Stat(filepath.Join(kafkaDir, "plain/meta")); err == nil {
			t.Error("no metadata logs found")
		}
		t.Skip("no metadata logs")
	}
	if types["LEADER_CHANGE"] == 0 {
		t.Errorf("types %v, want some LEADER_CHANGE", types)
	}
	for name := range types {
		if name == "COMMIT" || name == "ABORT" || name[:3] == "UNK" {
			t.Errorf("type %s in a metadata log", name)
		}
	}
}

func TestControlTypeString(t *testing.T) {
	for kind, want := range map[ControlType]string{0: "ABORT", 1: "COMMIT", 6: "KRAFT_VOTERS", 7: "UNKNOWN(7)", -1: "UNKNOWN(-1)"} {
		if got := kind.String(); got != want {
			t.Errorf("%d: %s, want %s", int16(kind), got, want)
		}
	}
}

package batch

import (
	"encoding/hex"
	"errors"
	"path/filepath"
	"testing"
)

// Kafka's error codes for a produced batch.
const (
	kafkaNone             = 0
	kafkaCorruptMessage   = 2
	kafkaMessageTooLarge  = 10
	kafkaInvalidTimestamp = 32
	kafkaInvalidRecord    = 87
	// Of things that a batch alone does not tell: larger than a segment; a
	// request without transactional id.
	kafkaRecordListTooLarge    = 18
	kafkaTransactionalIDDenied = 53
)

// stricter names what a real broker stored, or answered as an error of its
// own, and what we answer instead.
var stricter = map[string]error{
	"a batch and a part of another":    ErrInvalidRecord,
	"a batch and nine zero bytes":      ErrInvalidRecord,
	"offset deltas 0, 0, 5":            ErrInvalidRecord,
	"producer id with epoch -1 (none)": ErrInvalidRecord,
	"producer id with epoch -1 (zstd)": ErrInvalidRecord,
	"codec 5 (none)":                   ErrUnsupportedCodec, // Kafka: −1, as for the next
	"codec 5 (zstd)":                   ErrUnsupportedCodec,
	"says zstd or none, is not (none)": ErrCorrupt,
}

// sentinel is the class of error that answers to Kafka's code.
func sentinel(t *testing.T, code int) error {
	switch code {
	case kafkaNone, kafkaRecordListTooLarge, kafkaTransactionalIDDenied:
		return nil
	case kafkaCorruptMessage:
		return ErrCorrupt
	case kafkaMessageTooLarge:
		return ErrTooLarge
	case kafkaInvalidTimestamp:
		return ErrInvalidTimestamp
	case kafkaInvalidRecord:
		return ErrInvalidRecord
	}
	t.Errorf("no error of ours for %d", code)
	return nil
}

// TestRefusedByKafka gives the leader's door the batches that a real broker
// was given, good and malformed, under the same configuration.
func TestRefusedByKafka(t *testing.T) {
	type step struct {
		Op, Who string
		Error   int
		Request struct {
			TopicData []struct{ Name string }
		}
		Batch struct{ Hex string }
	}
	seen := map[string]bool{}
	checked, refused := 0, 0
	capture := lines[struct {
		CapturedAt int64 `json:"captured_at"`
	}](t, filepath.Join(kafkaDir, "plain/truth/capture.json"))[0]
	for _, s := range lines[step](t, filepath.Join(kafkaDir, "plain/truth/steps.jsonl")) {
		if s.Op != "Produce" || s.Batch.Hex == "" {
			continue
		}
		b, err := hex.DecodeString(s.Batch.Hex)
		if err != nil {
			t.Fatal(err)
		}
		rules := Rules{SizeMax: 3000, Now: capture.CapturedAt, AfterMax: 3600_000}
		if s.Request.TopicData[0].Name == "refused-appendtime" {
			rules.Timestamps = LogAppendTime
		}
		_, err = rules.Validate(b)
		want, harder := stricter[s.Who]
		if !harder {
			want = sentinel(t, s.Error)
		}
		seen[s.Who] = true
		// Magic 1 is an invalid record to Kafka, and has a name of its own here.
		if s.Error == kafkaInvalidRecord && errors.Is(err, ErrLegacyMagic) {
			err = ErrInvalidRecord
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v (Kafka: %d)", s.Who, err, want, s.Error)
		}
		checked++
		if want != nil {
			refused++
		}
	}
	for who := range stricter {
		if !seen[who] {
			t.Errorf("%q was never tried", who)
		}
	}
	if refused == 0 {
		t.Error("nothing refused")
	}
	t.Logf("%d batches, %d refused", checked, refused)
}

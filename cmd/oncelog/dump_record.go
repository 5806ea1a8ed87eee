package main

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/oncelog/oncelog/batch"
)

// controlFields is the meaning of a control record.
type controlFields struct {
	Type             string `json:"type"`
	CoordinatorEpoch *int32 `json:"coordinator_epoch,omitempty"`
	Error            string `json:"error,omitempty"`
}

// markerBytes is the least a marker's value has: version and coordinator epoch.
const markerBytes = 6

// controlOf decodes a control record.
func controlOf(r *batch.Record) any {
	_, kind, err := batch.ReadControl(r.Key)
	if err != nil {
		return controlFields{Type: "UNKNOWN", Error: err.Error()}
	}
	f := controlFields{Type: kind.String()}
	if kind != batch.ControlAbort && kind != batch.ControlCommit {
		return f
	}
	if len(r.Value) < markerBytes {
		f.Error = "the marker has no coordinator epoch"
		return f
	}
	epoch := int32(binary.BigEndian.Uint32(r.Value[2:]))
	f.CoordinatorEpoch = &epoch
	return f
}

// headersOf are the headers of a record as pairs of name and hex, nil for none.
func headersOf(r *batch.Record) any {
	if r.Headers.Len() == 0 {
		return nil
	}
	var all [][2]*string
	for key, value := range r.Headers.All() {
		name := string(key)
		pair := [2]*string{&name, nil}
		if value != nil {
			text := hex.EncodeToString(value)
			pair[1] = &text
		}
		all = append(all, pair)
	}
	return all
}

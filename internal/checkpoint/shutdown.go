package checkpoint

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// CleanShutdownFile is the name of the mark of a clean stop, at the root of a
// log directory. That it is there is what counts; who reads it removes it
// before anything else, so that a crash afterwards is not taken for clean.
const CleanShutdownFile = ".kafka_cleanshutdown"

// CleanShutdown is the content of the mark.
type CleanShutdown struct {
	Version     int32
	BrokerEpoch int64 // of the broker that stopped; −1: not said
}

// ReadCleanShutdown reads the mark. Older brokers leave an empty file. The
// error is a *FormatError; the directory was stopped cleanly even so.
func ReadCleanShutdown(b []byte) (CleanShutdown, error) {
	none := CleanShutdown{BrokerEpoch: -1}
	if len(bytes.TrimSpace(b)) == 0 {
		return none, nil
	}
	var content struct {
		Version     int32  `json:"version"`
		BrokerEpoch *int64 `json:"brokerEpoch"`
	}
	if err := json.Unmarshal(b, &content); err != nil {
		return none, &FormatError{Line: 1, Reason: "not the JSON of a clean shutdown: " + excerpt(string(b))}
	}
	if content.BrokerEpoch != nil {
		none.BrokerEpoch = *content.BrokerEpoch
	}
	none.Version = content.Version
	return none, nil
}

// AppendCleanShutdown appends the file to dst.
func AppendCleanShutdown(dst []byte, c CleanShutdown) []byte {
	dst = append(dst, `{"version":`...)
	dst = strconv.AppendInt(dst, int64(c.Version), 10)
	dst = append(dst, `,"brokerEpoch":`...)
	dst = strconv.AppendInt(dst, c.BrokerEpoch, 10)
	return append(dst, '}')
}

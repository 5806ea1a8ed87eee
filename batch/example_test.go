package batch_test

import (
	"fmt"

	"github.com/oncelog/oncelog/batch"
)

func ExampleBuilder() {
	var w batch.Builder
	options := batch.Plain
	options.Codec = batch.CodecZstd
	w.Reset(nil, options)
	w.Add(1700000000000, []byte("k"), []byte("first"))
	w.Add(1700000000005, nil, []byte("second"), batch.RecordHeader{Key: "trace", Value: []byte("7")})
	b, err := w.Finish()
	fmt.Println(batch.Batch(b).RecordCount(), err)
	// Output: 2 <nil>
}

func ExampleRecords() {
	var w batch.Builder
	w.Reset(nil, batch.Plain)
	w.Add(1700000000000, []byte("k"), []byte("first"))
	w.Add(1700000000005, nil, []byte("second"), batch.RecordHeader{Key: "trace", Value: []byte("7")})
	bytes, err := w.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := batch.Parse(bytes)
	if err != nil {
		fmt.Println(err)
		return
	}
	b.Stamp(100, 3)
	var records batch.Records
	defer records.Close()
	for records.Reset(b); records.Next(); {
		r := records.Record()
		fmt.Printf("%d %q %q\n", r.Offset, r.Key, r.Value)
		for key, value := range r.Headers.All() {
			fmt.Printf("  %s=%s\n", key, value)
		}
	}
	fmt.Println(records.Err())
	// Output:
	// 100 "k" "first"
	// 101 "" "second"
	//   trace=7
	// <nil>
}

func ExampleReadMarker() {
	b := batch.AppendMarker(nil, batch.Marker{Producer: batch.Producer{ID: 9000, Epoch: 7}, Commit: true, CoordinatorEpoch: 42})
	m, ok, err := batch.ReadMarker(b)
	fmt.Println(m.Producer.ID, m.Producer.Epoch, m.Commit, m.CoordinatorEpoch, ok, err)
	// Output: 9000 7 true 42 true <nil>
}

func ExampleRules() {
	rules := batch.Rules{KeysRequired: true}
	var w batch.Builder
	w.Reset(nil, batch.Plain)
	w.Add(1700000000000, nil, []byte("no key"))
	b, err := w.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = rules.Validate(b)
	fmt.Println(err)
	// Output: batch: invalid record: record 0 at byte 0 of the records: null key in a compacted topic
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"time"
)

// A file of acknowledgements has one line for each, written (to the page
// cache, which outlives this process) once the append has returned:
//
//	data WRITER N BASE-OFFSET BYTES MICROSECONDS      the N-th batch of a writer
//	end  WRITER TXN OFFSET commit|abort MICROSECONDS  the marker of a transaction
//
// The time counts from the first append on.

// ackFile is one that is written, by many goroutines: a line is one write.
type ackFile struct {
	// Set by createAcks.
	f     *os.File
	start time.Time
}

func createAcks(name string) (*ackFile, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &ackFile{f: f, start: time.Now()}, nil
}

func (a *ackFile) data(writer, n int, base int64, size int) error {
	_, err := fmt.Fprintf(a.f, "data %d %d %d %d %d\n", writer, n, base, size, time.Since(a.start).Microseconds())
	return err
}

func (a *ackFile) end(writer, txn int, offset int64, commit bool) error {
	how := "abort"
	if commit {
		how = "commit"
	}
	_, err := fmt.Fprintf(a.f, "end %d %d %d %s %d\n", writer, txn, offset, how, time.Since(a.start).Microseconds())
	return err
}

// acknowledged is what a file of acknowledgements says.
type acknowledged struct {
	batches []ackedBatch
	last    map[int]ackedBatch // by writer
	ended   map[[2]int]bool    // by writer and transaction: committed
	bytes   int64              // of the batches
	took    time.Duration      // until the last one
}

type ackedBatch struct {
	writer, n int
	base      int64
}

func readAcks(name string) (*acknowledged, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	a := &acknowledged{last: map[int]ackedBatch{}, ended: map[[2]int]bool{}}
	for line := range bytes.Lines(b) {
		if line[len(line)-1] != '\n' {
			break // killed within the write
		}
		if err := a.read(string(line)); err != nil {
			return nil, fmt.Errorf("%s: line %q: %w", name, line, err)
		}
	}
	if len(a.batches) == 0 {
		return nil, fmt.Errorf("%s: nothing was acknowledged", name)
	}
	return a, nil
}

func (a *acknowledged) read(line string) error {
	var writer, n int
	var offset, size, micros int64
	var how string
	if _, err := fmt.Sscanf(line, "data %d %d %d %d %d\n", &writer, &n, &offset, &size, &micros); err == nil {
		acked := ackedBatch{writer: writer, n: n, base: offset}
		a.batches = append(a.batches, acked)
		a.last[writer] = acked
		a.bytes += size
	} else if _, err := fmt.Sscanf(line, "end %d %d %d %s %d\n", &writer, &n, &offset, &how, &micros); err == nil {
		a.ended[[2]int{writer, n}] = how == "commit"
	} else {
		return err
	}
	a.took = max(a.took, time.Duration(micros)*time.Microsecond)
	return nil
}

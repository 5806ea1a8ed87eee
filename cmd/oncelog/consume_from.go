package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// startingPoint is where a consumer begins.
type startingPoint struct {
	kind startingKind
	at   int64 // offset, or time in ms
}

type startingKind uint8

const (
	startEarliest startingKind = iota
	startLatest
	startOffset
	startTime
)

// parseStartingPoint reads a --from. Digits alone are always an offset; a time
// has letters in it or begins with an @.
func parseStartingPoint(text string) (startingPoint, error) {
	switch text {
	case "earliest":
		return startingPoint{kind: startEarliest}, nil
	case "latest":
		return startingPoint{kind: startLatest}, nil
	}
	if ms, ok := strings.CutPrefix(text, "@"); ok {
		n, err := parseDigits(ms)
		if err != nil {
			return startingPoint{}, fmt.Errorf("--from %q: %w behind the @", text, err)
		}
		return startingPoint{kind: startTime, at: n}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		ms := t.UnixMilli()
		if t.After(time.UnixMilli(ms)) {
			ms++ // the first ms that is not older
		}
		return startingPoint{kind: startTime, at: ms}, nil
	}
	n, err := parseDigits(text)
	if errors.Is(err, strconv.ErrRange) {
		return startingPoint{}, fmt.Errorf("--from %q: %w", text, err)
	}
	if err != nil {
		return startingPoint{}, fmt.Errorf("--from %q: want earliest, latest, an offset, a time like 2026-01-02T15:04:05Z, or one like @1700000000000", text)
	}
	return startingPoint{kind: startOffset, at: n}, nil
}

// parseDigits reads a number that has no sign.
func parseDigits(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("the number does not fit in 63 bits: %w", strconv.ErrRange)
	case err != nil:
		return 0, errors.New("want digits")
	}
	return int64(n), nil
}

// rangeError refuses an offset as a consumer does that has no rule for it.
type rangeError struct {
	partition           topic.Partition
	offset, start, next int64
}

func (e *rangeError) Error() string {
	if e.start == e.next {
		return fmt.Sprintf("offset %d is out of range: %s holds no record, and the next offset is %d", e.offset, e.partition, e.next)
	}
	return fmt.Sprintf("offset %d is out of range: %s holds the offsets %d to %d, and the next is %d", e.offset, e.partition, e.start, e.next-1, e.next)
}

func (e *rangeError) Unwrap() error { return log.ErrOffsetOutOfRange }

// find gives the offset to begin at, which lies in the log or at its end.
func (s *source) find(from startingPoint, i log.Isolation) (int64, error) {
	f := s.log.Frontiers()
	end := f.HighWatermark
	if i == log.ReadCommitted {
		end = max(f.LastStable, f.LogStart)
	}
	switch from.kind {
	case startEarliest:
		return f.LogStart, nil
	case startTime:
		found, err := s.log.OffsetForTime(from.at, i)
		if err != nil {
			return 0, fmt.Errorf("look for the first record at %s: %w", timeText(from.at), err)
		}
		if found.Offset >= 0 {
			return found.Offset, nil
		}
	case startOffset:
		if from.at > f.LogEnd && s.damage != nil {
			return 0, s.damage // the range is not known
		}
		if from.at < f.LogStart || from.at > f.LogEnd {
			return 0, &rangeError{partition: s.tp, offset: from.at, start: f.LogStart, next: f.LogEnd}
		}
		return from.at, nil
	}
	return end, nil
}

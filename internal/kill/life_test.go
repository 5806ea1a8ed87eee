package kill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oncelog/oncelog"
)

// life is a directory, from its making to the verification at its end.
type life struct {
	home   string // all files of it
	data   string // the log directory
	scene  *scene
	known  *known
	random *rand.Rand
	bug    string        // of the children, see plantBug
	opened time.Duration // how long the last opening took
	counts counts
}

// counts are what a life saw, beside the tally.
type counts struct {
	kills, recovering, closing, direct int
	stops                              int // clean ones
	// Of what happened in children, at least, as they told:
	rolls, checkpoints, waits int
	turns                     int // of a journal, from its begin to its end
}

func newLife(parent string, seed uint64) (*life, error) {
	s := newScene(seed)
	home, err := os.MkdirTemp(parent, fmt.Sprintf("kill-%d-", seed))
	if err != nil {
		return nil, err
	}
	l := &life{home: home, data: filepath.Join(home, "data"), scene: s, known: newKnown(s), random: rand.New(rand.NewPCG(seed, 2))}
	return l, os.Mkdir(l.data, 0o755)
}

// live kills so many children, one after the other.
func (l *life) live(ctx context.Context, rounds int) error {
	for n := range rounds {
		if err := l.round(ctx, n); err != nil {
			return fmt.Errorf("kill %d: %w", n, err)
		}
		if l.random.IntN(5) == 0 {
			if err := l.stop(ctx); err != nil {
				return fmt.Errorf("after kill %d: %w", n, err)
			}
		}
	}
	if err := l.stop(ctx); err != nil {
		return err
	}
	return l.verify(ctx)
}

// options draws those of the next store.
func (l *life) options() childOptions {
	pick := func(sizes ...int64) int64 { return sizes[l.random.IntN(len(sizes))] }
	o := childOptions{CheckpointBytes: pick(64<<10, 1<<20), OpenSegmentsMax: int(pick(4, 0))}
	if l.random.IntN(4) == 0 {
		o.Direct = true
		return o
	}
	o.MemoryBytes, o.JournalBytes, o.TailBytes = pick(2<<20, 0), pick(64<<10, 256<<10, 1<<20, 0), pick(256<<10, 1<<20, 0)
	return o
}

// round lets a child work, kills it, and looks.
func (l *life) round(ctx context.Context, n int) error {
	o := orders{Seed: l.scene.seed, Round: n, Dir: l.data, Records: filepath.Join(l.home, fmt.Sprint("records-", n)), Options: l.options(), Bug: l.bug}
	for who, is := range l.known.streams {
		o.Streams = append(o.Streams, lastStored{who.writer, who.at, is.n, is.base})
	}
	up := func(most time.Duration) time.Duration { return time.Duration(1 + l.random.Int64N(int64(most))) }
	const longest = 150 * time.Millisecond
	until, after := saysAppending, up(longest)
	switch l.random.IntN(10) {
	case 0, 1:
		until, after = saysOpening, up(l.opened*3/2+time.Millisecond)
		l.counts.recovering++
	case 2:
		o.CloseAfter = up(longest / 2)
		until, after = saysClosing, up(15*time.Millisecond)
		l.counts.closing++
	}
	v, err := start(ctx, o)
	if err != nil {
		return err
	}
	if err := v.await(until); err != nil {
		return err
	}
	time.Sleep(after)
	if err := v.kill(); err != nil {
		return err
	}
	l.counts.kills++
	if o.Options.Direct {
		l.counts.direct++
	}
	if v.opened > 0 {
		l.opened = v.opened
	}
	if err := l.heard(v.said); err != nil {
		return fmt.Errorf("%s: %w", o.Records, err)
	}
	if err := l.look(ctx, o); err != nil {
		return fmt.Errorf("%s, %+v, killed %v after %q: %w", o.Records, o.Options, after, until, err)
	}
	return os.Remove(o.Records)
}

// heard holds what the recovered store had against what was seen before.
func (l *life) heard(said []string) error {
	var rolls, checkpoints, waits int
	for _, line := range said {
		if line == saysAppending {
			l.known.created = true
		}
		if strings.HasPrefix(line, saysCounts) {
			if _, err := fmt.Sscanf(line, saysCounts+" %d %d %d", &rolls, &checkpoints, &waits); err != nil {
				return fmt.Errorf("the child says %q: %w", line, err)
			}
		}
		if !strings.HasPrefix(line, saysHolds) {
			continue
		}
		var at int
		var start, end int64
		var digest uint64
		if _, err := fmt.Sscanf(line, saysHolds+" %d %d %d %d", &at, &start, &end, &digest); err != nil {
			return fmt.Errorf("the child says %q: %w", line, err)
		}
		if c := &l.known.seen[at]; start != c.start || end != c.end || digest != c.digest() {
			return fmt.Errorf("%v: recovery made of it %d to %d, digest %x; before it was %d to %d, digest %x",
				places[at].TopicPartition, start, end, digest, c.start, c.end, c.digest())
		}
	}
	l.counts.rolls += rolls
	l.counts.checkpoints += checkpoints
	l.counts.waits += waits
	return nil
}

// look reads the directory as the kill left it, without changing it.
func (l *life) look(ctx context.Context, o orders) (err error) {
	records, err := readRecords(o.Records)
	if errors.Is(err, os.ErrNotExist) {
		err = nil // it was killed before it made the file
	}
	if err != nil {
		return err
	}
	found, err := l.read(ctx)
	if err != nil {
		return err
	}
	before := l.known.tally.journaled
	err = l.known.judge(look{found, records, !o.Options.Direct})
	if size := o.Options.JournalBytes; size > 0 {
		l.counts.turns += int((l.known.tally.journaled - before) / size)
	}
	return err
}

// read reads the directory with a store that does not write.
func (l *life) read(ctx context.Context) (found []content, err error) {
	store, err := oncelog.Open(l.data, oncelog.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close(ctx)) }()
	return readAll(l.scene, store)
}

// stop recovers the directory here, sends everything again that was stored last,
// and closes it: nothing changes.
func (l *life) stop(ctx context.Context) error {
	store, err := oncelog.Open(l.data, l.options().store())
	if err != nil {
		return err
	}
	err = func() error {
		found, err := readAll(l.scene, store)
		if err == nil {
			err = l.known.judge(look{found: found})
		}
		if err == nil {
			err = sendAgain(ctx, l.scene, store, l.known.streams)
		}
		if err == nil {
			found, err = readAll(l.scene, store)
		}
		if err == nil {
			err = l.known.judge(look{found: found})
		}
		return err
	}()
	if err := errors.Join(err, store.Close(ctx)); err != nil {
		return fmt.Errorf("clean stop: %w", err)
	}
	l.counts.stops++
	found, err := l.read(ctx)
	if err == nil {
		err = l.known.judge(look{found: found})
	}
	if err != nil {
		return fmt.Errorf("after a clean stop: %w", err)
	}
	return nil
}

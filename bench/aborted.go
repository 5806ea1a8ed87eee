package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/log"
)

// abortedSides read the same data behind one aborted transaction and behind
// many.
func (c *Config) abortedSides(dir string) []contestant {
	side := func(name, folder string, transactions int, long bool) contestant {
		return contestant{name: name, params: c.name(), metric: MetricP50,
			side: &abortedRead{engine: newEngine(c, filepath.Join(dir, folder)), transactions: transactions, long: long}}
	}
	return []contestant{side("engine", "many", c.Transactions, c.Long), side("one transaction", "one", 1, false)}
}

// abortedRead reads plain data at read_committed that stands behind aborted
// transactions; with long, one more is open over all of them and is aborted
// last.
type abortedRead struct {
	engine       *engine
	transactions int
	long         bool
	from         int64 // where the plain data begins
}

// firstTransaction is the id of the first transactional producer; no other
// producer of a bench has one as large.
const firstTransaction = 1 << 50

func (a *abortedRead) prepare(ctx context.Context) error {
	if err := a.engine.open(ctx); err != nil {
		return err
	}
	l, err := a.engine.store.Partition(a.engine.partitions[0])
	if err != nil {
		return err
	}
	value := valueOf(a.engine.config.RecordBytes)
	if a.long {
		if err := begin(ctx, l, firstTransaction, value); err != nil {
			return err
		}
	}
	for i := range a.transactions {
		if err := begin(ctx, l, firstTransaction+1+int64(i), value); err != nil {
			return err
		}
		if err := abort(ctx, l, firstTransaction+1+int64(i)); err != nil {
			return err
		}
	}
	if a.long {
		if err := abort(ctx, l, firstTransaction); err != nil {
			return err
		}
	}
	a.from = l.Frontiers().LogEnd
	if err := a.engine.fill(ctx); err != nil {
		return err
	}
	_, err = a.read(ctx, a.engine.config.Warmup)
	return err
}

// begin opens a transaction in a partition by its first batch.
func begin(ctx context.Context, l *log.Log, id int64, value []byte) error {
	o := batch.Plain
	o.Producer, o.BaseSequence, o.Transactional = batch.Producer{ID: id}, 0, true
	var w batch.Builder
	w.Reset(nil, o)
	w.Add(time.Now().UnixMilli(), nil, value)
	b, err := w.Finish()
	if err != nil {
		return err
	}
	guard, _, err := l.Guard(o.Producer, 0, false)
	if err != nil {
		return err
	}
	_, err = l.Append(ctx, b, log.AppendOptions{Guard: guard, NoWait: true})
	return err
}

func abort(ctx context.Context, l *log.Log, id int64) error {
	m := batch.Marker{Producer: batch.Producer{ID: id}, Timestamp: time.Now().UnixMilli()}
	_, err := l.AppendMarker(ctx, m, log.MarkerOptions{NoWait: true})
	return err
}

func (a *abortedRead) round(ctx context.Context) (sample, error) {
	return a.read(ctx, a.engine.config.Length)
}

func (a *abortedRead) read(ctx context.Context, length time.Duration) (sample, error) {
	s := sample{latency: newHistogram()}
	begun := time.Now()
	request := []oncelog.FetchRequest{{TopicPartition: a.engine.partitions[0], Offset: a.from, BytesMax: 64 << 10}}
	o := oncelog.FetchOptions{Isolation: oncelog.ReadCommitted}
	for ctx.Err() == nil && (s.ops == 0 || time.Since(begun) < length) {
		start := time.Now()
		results, err := a.engine.store.Fetch(ctx, request, o)
		if err != nil {
			return s, err
		}
		record(s.latency, time.Since(start))
		o.Results = results
		f := &results[0]
		if f.Err != nil {
			return s, f.Err
		}
		n := len(f.Bytes())
		if len(f.Aborted) > 0 {
			return s, fmt.Errorf("aborted transactions that ended before offset %d are named behind it", a.from)
		}
		request[0].Offset = f.NextOffset()
		f.Close()
		if n == 0 { // the end
			request[0].Offset = a.from
			continue
		}
		s.ops, s.bytes = s.ops+1, s.bytes+int64(n)
	}
	s.elapsed = time.Since(begun)
	return s, nil
}

func (a *abortedRead) close() error { return a.engine.close() }

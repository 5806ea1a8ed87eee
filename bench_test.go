package oncelog_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/oncelog/oncelog"
	"github.com/oncelog/oncelog/batch"
)

// BenchmarkAppend appends batches of one record of one producer, at level os
// within the tail: what the engine itself costs. `oncelog bench append` measures
// the rest.
func BenchmarkAppend(b *testing.B) {
	const burst = 16 << 20
	for _, size := range []int{100, 1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("level=os/size=%d", size), func(b *testing.B) {
			s, err := oncelog.Open(b.TempDir(), oncelog.Options{Durability: oncelog.DurabilityOS})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close(context.Background())
			ctx, tp := context.Background(), oncelog.TopicPartition{Topic: "t"}
			if err := s.CreateTopic(ctx, tp.Topic, oncelog.TopicConfig{Partitions: 1}); err != nil {
				b.Fatal(err)
			}
			batches := make([]batch.Batch, max(burst/size, 1))
			made := int32(0) // sequences so far
			refill := func() {
				var w batch.Builder
				value := make([]byte, size)
				for i := range batches {
					w.Reset(batches[i][:0], batch.BuilderOptions{Producer: batch.Producer{ID: 1}, BaseSequence: made})
					w.Add(1_700_000_000_000, nil, value)
					if batches[i], err = w.Finish(); err != nil {
						b.Fatal(err)
					}
					made++
				}
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%len(batches) == 0 {
					b.StopTimer()
					refill()
					if err := s.Sync(ctx); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				if _, err := s.Append(ctx, tp, batches[i%len(batches)], oncelog.AppendOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package txn

import (
	"context"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// MarkerRequest asks for markers of one producer in some partitions.
type MarkerRequest struct {
	batch.Marker
	TV2        bool
	Partitions []topic.Partition
}

// WriteMarkers ends transactions by hand, without asking anybody: for an operator
// who found one that nobody ends, and for a coordinator elsewhere. The answer has
// an error or nil for each partition of each request, once the markers are
// visible: all are published first, and waited for then.
//
// Errors: ErrPartitionGone, producerstate's (the epoch or the coordinator epoch of
// the marker is stale), log.ErrOutcomeUnknown, those of the logs.
func (c *Coordinator) WriteMarkers(ctx context.Context, requests []MarkerRequest) [][]error {
	answers := make([][]error, len(requests))
	ends := make([][]position, len(requests))
	for i, r := range requests {
		answers[i], ends[i] = make([]error, len(r.Partitions)), make([]position, len(r.Partitions))
		for j, tp := range r.Partitions {
			ends[i][j], answers[i][j] = c.writeMarker(ctx, tp, &r)
		}
	}
	for i := range ends {
		for j, end := range ends[i] {
			if answers[i][j] == nil {
				answers[i][j] = end.log.Await(ctx, end.end, log.DurabilityDefault)
			}
		}
	}
	return answers
}

func (c *Coordinator) writeMarker(ctx context.Context, tp topic.Partition, r *MarkerRequest) (position, error) {
	switch {
	case c.closed.Load():
		return position{}, ErrClosed
	case c.o.ReadOnly:
		return position{}, log.ErrReadOnly
	}
	l, err := c.p.Partition(tp)
	if err != nil {
		return position{}, err
	}
	a, err := l.AppendMarker(ctx, r.Marker, log.MarkerOptions{TV2: r.TV2, NoWait: true})
	if err != nil {
		return position{}, err
	}
	if a.Duplicate {
		return position{l, l.Frontiers().LogEnd}, nil
	}
	return position{l, a.LastOffset + 1}, nil
}

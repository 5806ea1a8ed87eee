package groupoffsets

import (
	"context"
	"errors"

	"github.com/oncelog/oncelog/internal/topic"
)

// ExpireOptions of Expire.
type ExpireOptions struct {
	// Keep tells that a group reads a topic: its offsets stay however old they are.
	// It is called with locks held and must not call the store. nil: those of every
	// group stay that members are recorded of.
	Keep func(group, topic string) bool
}

// Expire forgets offsets that are older than Options.Retention, or whose own time
// has come, and groups that then have nothing left. Never an offset that is pending
// in a transaction, or has just been committed; never a group with an open
// transaction or recorded members. It returns how many offsets went, once that is
// safe. An error of one partition does not keep it from the others.
//
// The age of an offset counts from its commit, in a group that had members from
// when it lost the last one if that was later.
func (s *Store) Expire(ctx context.Context, o ExpireOptions) (n int, err error) {
	e := expiry{ExpireOptions: o, now: s.o.Now().UnixMilli(), retentionMs: s.o.Retention.Milliseconds()}
	for i := range s.logs.OffsetsPartitions() {
		p := s.at(i)
		names, failed := s.names(ctx, p, e.concerns)
		if failed == nil {
			var gone int
			gone, failed = s.remove(ctx, p, names, e.choose)
			n += gone
		}
		err = errors.Join(err, failed)
	}
	return n, err
}

// expiry is the rule by which offsets expire. Pure.
type expiry struct {
	ExpireOptions
	now, retentionMs int64
}

// concerns tells whether something of a group may expire.
func (x *expiry) concerns(g *groupState) bool {
	for _, t := range g.topics {
		for _, e := range t.entries {
			if x.expired(e) {
				return true
			}
		}
	}
	return x.empty(g)
}

// kept tells whether a group reads a topic still.
func (x *expiry) kept(g *groupState, topic string) bool {
	if x.Keep != nil {
		return x.Keep(g.name, topic)
	}
	return g.membersRecorded() != 0
}

// expired tells whether an offset has outlived its time.
func (x *expiry) expired(e *entry) bool {
	g, v := e.topic.group, &e.committed
	if !e.isCommitted() || e.pending != nil || x.kept(g, e.topic.name) {
		return false
	}
	if v.expireMs >= 0 {
		return x.now >= v.expireMs
	}
	base := v.commitMs
	if c := g.classic; c != nil && c.protocolType != "" && c.members == 0 {
		base = max(base, c.stateMs)
	}
	return x.now-base >= x.retentionMs
}

// empty tells whether a group has records of its own, no members, and has been
// without them long enough.
func (x *expiry) empty(g *groupState) bool {
	if g.membersRecorded() != 0 || g.open > 0 || len(g.topics) > 0 {
		return false
	}
	return g.classic != nil && x.now-g.classic.stateMs >= x.retentionMs
}

// choose adds what expires of a group, and the group itself with the last of it.
func (x *expiry) choose(g *groupState, r *removal) {
	stays := false
	r.offsets(g, func(e *entry) bool {
		if _, busy := r.touched[touched{g.name, topic.Partition{Topic: e.topic.name, Index: e.partition}}]; busy || !x.expired(e) {
			stays = true
			return false
		}
		return true
	})
	_, busy := r.active[g.name]
	if r.more || stays || busy || g.open > 0 || g.membersRecorded() != 0 {
		return
	}
	if len(g.topics) > 0 || x.empty(g) {
		r.group(g)
	}
}

package groupoffsets

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncelog/oncelog/batch"
	"github.com/oncelog/oncelog/internal/topic"
	"github.com/oncelog/oncelog/log"
)

// records appends records as whoever keeps the membership of groups does.
func (b *bed) records(group string, keysAndValues ...[]byte) {
	b.t.Helper()
	var w batch.Builder
	w.Reset(nil, batch.Plain)
	for i := 0; i < len(keysAndValues); i += 2 {
		w.Add(at0, keysAndValues[i], keysAndValues[i+1])
	}
	v := must(w.Finish())
	if _, err := b.of(group).Append(ctx, v, log.AppendOptions{Origin: log.OriginCoordinator}); err != nil {
		b.t.Fatal(err)
	}
}

// group records a classic group.
func (b *bed) group(group, protocolType string, members int) {
	b.t.Helper()
	v := unhex("0003")
	v = appendString(v, protocolType)
	v = append(v, unhex("00000001 ffff ffff")...)
	v = append(v, unhex(fmt.Sprintf("%016x %08x", b.clock().UnixMilli(), members))...)
	v = append(v, make([]byte, members*memberBytes)...)
	b.records(group, appendGroupKey(nil, keyClassic, group), v)
}

// memberBytes is the size of a member that is nothing but zeros.
const memberBytes = 2 + 2 + 2 + 2 + 4 + 4 + 4 + 4

func TestDeleteGroup(t *testing.T) {
	b := newBed(t, 2, log.Options{})
	b.group("g", "consumer", 0)
	b.commit("g", at(0, 1), at(1, 1))
	b.stage("g", 1, at(1, 2), at(2, 3))
	b.commit("h", at(0, 1))
	if err := b.s.DeleteGroup(ctx, "g"); err != nil {
		t.Fatal(err)
	}
	if d := must(b.s.Describe(ctx, "g")); d.Kind != KindSimple || d.Offsets != 0 || d.Group.Pending != 0 || d.Transactions != 1 {
		t.Errorf("got %+v, want nothing but an open transaction", d)
	}
	b.end("g", 1, true)
	for i := range int32(3) {
		b.want("g", i, -1, -1)
	}
	b.want("h", 0, 1, 1)
	if err := b.s.DeleteGroup(ctx, "g"); !errors.Is(err, ErrUnknownGroup) {
		t.Errorf("got %v, want ErrUnknownGroup", err)
	}
	if _, err := b.s.Describe(ctx, "g"); !errors.Is(err, ErrUnknownGroup) {
		t.Errorf("got %v, want ErrUnknownGroup", err)
	}
}

// Of a group of KIP-848 all goes that Kafka keeps of it.
func TestDeleteConsumerGroup(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	member := func(v keyVersion) []byte { return appendString(appendGroupKey(nil, v, "g"), "m") }
	b.records("g", appendGroupKey(nil, keyConsumer, "g"), unhex("0000 00000001 00"), member(keyMember), unhex("0000"), member(keyCurrentAssignment), unhex("0000"))
	b.commit("g", at(0, 1))
	if d := must(b.s.Describe(ctx, "g")); d.Kind != KindConsumer || d.Members != 1 || d.Offsets != 1 {
		t.Errorf("got %+v", d)
	}
	from := b.of("g").Frontiers().LogEnd
	if err := b.s.DeleteGroup(ctx, "g"); err != nil {
		t.Fatal(err)
	}
	var got []keyVersion
	f := must(b.of("g").Read(from, log.ReadOptions{}))
	defer f.Close()
	var records batch.Records
	defer records.Close()
	for v := range f.Batches() {
		for records.Reset(v); records.Next(); {
			if r := records.Record(); r.Value != nil {
				t.Errorf("%x has a value", r.Key)
			}
			got = append(got, keyVersion(int16(records.Record().Key[1])))
		}
	}
	if want := []keyVersion{1, 8, 7, 5, 6, 4, 3}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("tombstones of %v, want %v", got, want)
	}
	if all := must(b.s.Groups(ctx)); len(all) != 0 {
		t.Errorf("got %+v, want none", all)
	}
	b.same()
}

// More than one batch takes.
func TestDeleteMany(t *testing.T) {
	const n = 3*removalMax/2 + 1
	b := newBed(t, 1, log.Options{})
	var commits []Commit
	var partitions []topic.Partition
	for i := range int32(n) {
		commits, partitions = append(commits, at(i, 1)), append(partitions, part(i))
	}
	for range 2 {
		b.commit("g", commits...)
		if got, err := b.s.Delete(ctx, "g", partitions); got != n || err != nil {
			t.Fatalf("deleted %d, %v, want %d", got, err, n)
		}
		b.same()
	}
	b.commit("g", commits...)
	b.commit("h", commits[:2]...)
	b.commit("h", Commit{Partition: topic.Partition{Topic: "u"}, Offset: 1})
	if got, err := b.s.DeleteTopic(ctx, "t"); got != n+2 || err != nil {
		t.Fatalf("deleted %d, %v, want %d", got, err, n+2)
	}
	if all := must(b.s.Groups(ctx)); len(all) != 1 || all[0].Name != "h" || all[0].Offsets != 1 {
		t.Errorf("got %+v, want the offset of the other topic", all)
	}
	b.commit("g", commits...)
	if err := b.s.DeleteGroup(ctx, "g"); err != nil {
		t.Fatal(err)
	}
	b.same()
	if m := b.s.Metrics(); m != (Metrics{Groups: 1, Offsets: 1}) {
		t.Errorf("got %+v", m)
	}
}

func TestExpire(t *testing.T) {
	const day = 24 * time.Hour
	b := newBed(t, 2, log.Options{})
	b.commit("simple", at(0, 1))
	b.commit("alive", at(0, 1))
	b.group("alive", "consumer", 1)
	b.commit("left", at(0, 1))
	b.group("left", "consumer", 1)
	b.records("torn", appendGroupKey(nil, keyClassic, "torn"), []byte{0, 99})
	b.commit("torn", at(0, 1))
	own := at(0, 1)
	own.ExpireMs = at0 + time.Hour.Milliseconds()
	b.commit("own", own)
	own.ExpireMs = at0 + (100 * day).Milliseconds()
	b.commit("own", Commit{Partition: part(1), Offset: 1, ExpireMs: own.ExpireMs})

	expire := func(want int) {
		t.Helper()
		if n := must(b.s.Expire(ctx, ExpireOptions{})); n != want {
			t.Errorf("%d expired, want %d", n, want)
		}
		b.same()
	}
	expire(0)
	b.pass(time.Hour)
	expire(1) // by its own time
	b.want("own", 0, -1, -1)
	b.want("own", 1, 1, 1)
	b.pass(3 * day)
	b.group("left", "consumer", 0) // its last member goes
	b.commit("simple", at(1, 2))
	b.pass(4*day - time.Hour - time.Millisecond)
	expire(0)
	b.pass(time.Millisecond)
	expire(1)
	b.want("simple", 0, -1, -1)
	b.want("simple", 1, 2, 2)
	b.want("left", 0, 1, 1) // not seven days empty yet
	b.pass(3*day - time.Millisecond)
	expire(0)
	b.pass(time.Hour + time.Millisecond)
	expire(2)
	for _, gone := range []string{"simple", "left"} {
		if d, err := b.s.Describe(ctx, gone); !errors.Is(err, ErrUnknownGroup) {
			t.Errorf("%s: got %+v, %v", gone, d, err)
		}
	}
	b.pass(50 * day)
	expire(0)
	b.want("alive", 0, 1, 1)
	b.want("torn", 0, 1, 1)
	if d := must(b.s.Describe(ctx, "torn")); d.Members != -1 {
		t.Errorf("got %+v, want unknown members", d)
	}
	keep := ExpireOptions{Keep: func(group, topic string) bool { return group != "alive" || topic != "t" }}
	if n := must(b.s.Expire(ctx, keep)); n != 1 {
		t.Errorf("%d expired, want the one that is not kept", n)
	}
	if d := must(b.s.Describe(ctx, "alive")); d.Offsets != 0 || d.Members != 1 {
		t.Errorf("got %+v, want the members", d)
	}
}

// The clock stepped back: nothing expires early.
func TestExpireClock(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.commit("g", at(0, 1))
	b.pass(-100 * 24 * time.Hour)
	if n := must(b.s.Expire(ctx, ExpireOptions{})); n != 0 {
		t.Errorf("%d expired", n)
	}
}

// Empty groups without offsets go, too, after as long.
func TestExpireEmptyGroup(t *testing.T) {
	b := newBed(t, 1, log.Options{})
	b.group("g", "consumer", 0)
	must(b.s.Expire(ctx, ExpireOptions{}))
	must(b.s.Describe(ctx, "g"))
	b.pass(DefaultRetention)
	must(b.s.Expire(ctx, ExpireOptions{}))
	if _, err := b.s.Describe(ctx, "g"); !errors.Is(err, ErrUnknownGroup) {
		t.Errorf("got %v, want ErrUnknownGroup", err)
	}
}

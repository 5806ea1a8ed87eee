package segment

import "testing"

func TestParseName(t *testing.T) {
	for _, c := range []struct {
		name string
		want Name
		ok   bool
	}{
		{"00000000000000000000.log", Name{0, KindLog, SuffixNone}, true},
		{"00000000000000368769.index", Name{368769, KindOffsetIndex, SuffixNone}, true},
		{"00000000000000000005.timeindex", Name{5, KindTimeIndex, SuffixNone}, true},
		{"00000000000000000005.txnindex", Name{5, KindTxnIndex, SuffixNone}, true},
		{"09223372036854775807.snapshot", Name{1<<63 - 1, KindSnapshot, SuffixNone}, true},
		{"00000000000000000005.log.deleted", Name{5, KindLog, SuffixDeleted}, true},
		{"00000000000000000005.txnindex.cleaned", Name{5, KindTxnIndex, SuffixCleaned}, true},
		{"00000000000000000005.index.swap", Name{5, KindOffsetIndex, SuffixSwap}, true},
		{"7.log", Name{7, KindLog, SuffixNone}, true}, // Kafka takes the digits before the first dot
		{"99999999999999999999.log", Name{}, false},
		{"-0000000000000000005.log", Name{}, false},
		{"00000000000000000005.log.1700000000000.cut", Name{}, false},
		{"00000000000000000005.logs", Name{}, false},
		{"00000000000000000005.log.swap.deleted", Name{}, false},
		{"00000000000000000005.index.tmp", Name{}, false},
		{".log", Name{}, false},
		{"5", Name{}, false},
		{"leader-epoch-checkpoint", Name{}, false},
		{"partition.metadata", Name{}, false},
		{PreparedName, Name{}, false},
	} {
		got, ok := ParseName(c.name)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %v, want %+v, %v", c.name, got, ok, c.want, c.ok)
		}
		if ok && len(c.name) > 20 && got.String() != c.name {
			t.Errorf("%s: written as %s", c.name, got)
		}
	}
	if _, ok := ParseName(CutName(5, 1700000000000)); ok {
		t.Error("a kept cut is taken for a segment")
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("00000000000000000005.log.deleted")
	f.Add("1.snapshot")
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := ParseName(name)
		if !ok {
			return
		}
		if again, ok := ParseName(n.String()); !ok || again != n || n.Offset < 0 {
			t.Errorf("%q is %+v, and again %+v", name, n, again)
		}
	})
}

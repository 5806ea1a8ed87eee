package lint

import (
	"strings"
	"testing"
)

// TestRules plants offences: each is found by its rule, and what is near them
// but allowed is not.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, rule, path, content string
		want                      string // in the only complaint; "": none
	}{
		{"upward", "imports of ours", "batch/x.go", "package batch\nimport _ \"" + module + "/log\"\n", `"batch" may not import "log"`},
		{"root from below", "imports of ours", "log/x.go", "package log\nimport _ \"" + module + "\"\n", `may not import ""`},
		{"downward", "imports of ours", "log/x.go", "package log\nimport _ \"" + module + "/batch\"\n", ""},
		{"checkpoint from segment", "imports of ours", "internal/segment/x.go", "package segment\nimport _ \"" + module + "/internal/checkpoint\"\n", "may not import"},
		{"test", "imports of ours", "batch/x_test.go", "package batch\nimport _ \"" + module + "/log\"\n", ""},
		{"command", "imports of ours", "cmd/oncelog/x.go", "package main\nimport _ \"" + module + "/internal/segment\"\n", ""},
		{"no row", "imports of ours", "shed/x.go", "package shed\n", "no row"},
		{"standard log", "imports of others", "index/x_test.go", "package index\nimport _ \"log\"\n", "never imported"},
		{"slog", "imports of others", "index/x.go", "package index\nimport _ \"log/slog\"\n", ""},
		{"hot path module", "imports of others", "batch/x.go", "package batch\nimport _ \"github.com/klauspost/compress/zstd\"\n", ""},
		{"cobra in a library", "imports of others", "log/x.go", "package log\nimport _ \"github.com/spf13/cobra\"\n", "may not import"},
		{"cobra in the command", "imports of others", "cmd/oncelog/x.go", "package main\nimport _ \"github.com/spf13/cobra\"\n", ""},
		{"kmsg in a library", "imports of others", "log/x.go", "package log\nimport _ \"github.com/twmb/franz-go/pkg/kmsg\"\n", "may not import"},
		{"like an allowed one", "imports of others", "log/x.go", "package log\nimport _ \"github.com/klauspost/compressor\"\n", "may not import"},
		{"x/sys but not unix", "imports of others", "log/x.go", "package log\nimport _ \"golang.org/x/sys/cpu\"\n", "may not import"},
		{"groups mixed", "import groups", "log/x.go", "package log\nimport (\n\t_ \"golang.org/x/sys/unix\"\n\t_ \"io\"\n)\n", "three groups"},
		{"groups not apart", "import groups", "log/x.go", "package log\nimport (\n\t_ \"io\"\n\t_ \"" + module + "/batch\"\n)\n", "three groups"},
		{"groups", "import groups", "log/x.go", "package log\nimport (\n\t_ \"io\"\n\n\t_ \"golang.org/x/sys/unix\"\n\n\t_ \"" + module + "/batch\"\n)\n", ""},
		{"long file", "length", "log/x_test.go", "package log\n" + strings.Repeat("\n", 500), "501 lines"},
		{"full file", "length", "log/x.go", "package log\n" + strings.Repeat("\n", 499), ""},
		{"long function", "length", "log/x.go", "package log\nfunc f() {\n" + strings.Repeat("\n", 69) + "}\n", "71 lines"},
		{"full function", "length", "log/x.go", "package log\n// doc\nfunc f() {\n" + strings.Repeat("\n", 68) + "}\n", ""},
		{"long function of a test", "length", "log/x_test.go", "package log\nfunc f() {\n" + strings.Repeat("\n", 300) + "}\n", ""},
		{"odds", "package name", "internal/util/x.go", "package util\n", "names nothing"},
		{"ends", "package name", "internal/common/disk/x.go", "package disk\n", "names nothing"},
		{"bare function", "exported comments", "log/x.go", "package log\nfunc F() {}\n", "F needs"},
		{"bare type", "exported comments", "log/x.go", "package log\ntype T int\n", "T needs"},
		{"bare constant", "exported comments", "log/x.go", "package log\nconst (\n\ta = 1\n\tB = 2\n)\n", "B needs"},
		{"comment of a group", "exported comments", "log/x.go", "package log\n// Sizes.\nconst (\n\tA = 1\n\tB = 2\n)\n", ""},
		{"constants of a type", "exported comments", "log/x.go", "package log\n// T is.\ntype T int\nconst (\n\tA T = 1\n\tB T = 2\n)\n", ""},
		{"constants of a bare type", "exported comments", "log/x.go", "package log\ntype t int\nconst (\n\tA t = 1\n)\n", "A needs"},
		{"comment behind", "exported comments", "log/x.go", "package log\nconst A = 1 // one\n", ""},
		{"bare method", "exported comments", "log/x.go", "package log\nfunc (t *T) M() {\n\tf()\n\tg()\n}\n", "M needs"},
		{"accessor", "exported comments", "log/x.go", "package log\nfunc (t *T) M() int { return t.m }\n", ""},
		{"method nobody sees", "exported comments", "log/x.go", "package log\nfunc (t *t) M() {\n}\n", ""},
		{"prints", "quiet libraries", "log/x.go", "package log\nfunc f() { fmt.Println() }\n", "fmt.Println"},
		{"reads the environment", "quiet libraries", "log/x.go", "package log\nvar e = os.Getenv(`X`)\n", "os.Getenv"},
		{"command prints", "quiet libraries", "cmd/oncelog/x.go", "package main\nfunc f() { fmt.Println() }\n", ""},
		{"formats", "quiet libraries", "log/x.go", "package log\nvar s = fmt.Sprintf(`x`)\n", ""},
		{"plain atomic", "typed atomics", "log/x.go", "package log\nvar n = atomic.LoadInt64(p)\n", "typed atomic"},
		{"typed atomic", "typed atomics", "log/x.go", "package log\nvar n atomic.Int64\n", ""},
		{"not formatted", "gofmt", "log/x.go", "package  log\n", "gofmt"},
		{"formatted", "gofmt", "log/x.go", "package log\n", ""},
		{"one machine", "portable paths", "log/x_test.go", "package log\n\nconst dir = \"/ro" + "ot/data\"\n", "one machine"},
	} {
		t.Run(strings.ReplaceAll(c.rule+"/"+c.name, " ", "-"), func(t *testing.T) {
			s, err := parse(c.path, []byte(c.content))
			if err != nil {
				t.Fatal(err)
			}
			got := rules[c.rule](s)
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRulePackageComments(t *testing.T) {
	for content, want := range map[string]int{
		"package log\n":                           1,
		"// About nothing.\npackage log\n":        1,
		"// Package log is a log.\npackage log\n": 0,
		"// Command log logs.\npackage main\n":    0,
	} {
		s, err := parse("log/x.go", []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		if got := checkPackageComments([]*source{s}); len(got) != want {
			t.Errorf("%q: got %q", content, got)
		}
	}
}

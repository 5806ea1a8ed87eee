package lint

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// house says which of our packages each of them may import; "*" is all. The
// arrows point downward only. internal/invariant is free to all but the lowest
// packages, which import nothing. Tests may import what Go lets them.
var house = map[string][]string{
	"batch":                  {},
	"internal/topic":         {},
	"internal/invariant":     {},
	"internal/lint":          {},
	"internal/vfs":           {"internal/invariant"},
	"internal/vfs/faultfs":   {"internal/vfs", "internal/invariant"},
	"internal/checkpoint":    {"internal/topic", "internal/vfs", "internal/invariant"},
	"index":                  {"internal/vfs", "internal/invariant"},
	"internal/producerstate": {"batch", "internal/invariant"},
	"internal/plant":         {},
	"internal/segment":       {"batch", "index", "internal/tail", "internal/plant", "internal/vfs", "internal/invariant"},
	"internal/tail":          {"batch", "internal/plant", "internal/vfs", "internal/invariant"},
	"internal/journal":       {"internal/plant", "internal/vfs", "internal/invariant"},
	"internal/overlay":       {"internal/vfs", "internal/invariant"},
	"log": {"batch", "index", "internal/producerstate", "internal/segment", "internal/tail", "internal/journal", "internal/overlay",
		"internal/checkpoint", "internal/plant", "internal/topic", "internal/vfs", "internal/invariant"},
	"internal/catalog":      {"log", "batch", "internal/journal", "internal/tail", "internal/overlay", "internal/segment", "internal/checkpoint", "internal/plant", "internal/topic", "internal/vfs", "internal/invariant"},
	"internal/delivery":     {"log", "batch", "index", "internal/invariant"},
	"internal/groupoffsets": {"log", "batch", "internal/topic", "internal/invariant"},
	"txn":                   {"log", "batch", "internal/topic", "internal/invariant"},
	"": {"txn", "internal/groupoffsets", "internal/delivery", "internal/catalog", "log", "internal/journal", "internal/tail", "internal/segment",
		"internal/producerstate", "index", "batch", "internal/checkpoint", "internal/topic", "internal/vfs", "internal/invariant"},
	"internal/group":   {"internal/topic", "internal/invariant"},
	"internal/broker":  {"", "log", "txn", "batch", "internal/group"},
	"internal/demo":    {"", "log", "batch"},
	"internal/kill":    {},
	"internal/sim":     {"", "internal/catalog", "log", "batch", "index", "internal/producerstate", "internal/checkpoint", "internal/segment", "internal/journal", "internal/plant", "internal/topic", "internal/vfs", "internal/vfs/faultfs", "internal/invariant"},
	"internal/interop": {"*"},
	"bench":            {"", "log", "batch"},
	"cmd/oncelog":      {"*"},
}

// Modules of others: what a library may import, what some packages may
// besides, and what tests may.
var (
	libraryModules = []string{
		"golang.org/x/sys/unix",
		"github.com/cespare/xxhash/v2",
		"github.com/klauspost/compress",
		"github.com/pierrec/lz4/v4",
		"github.com/valyala/bytebufferpool",
	}
	moreModules = map[string][]string{
		"cmd":              {"github.com/spf13/cobra", "github.com/twmb/franz-go/pkg/kmsg"},
		"bench":            {"github.com/spf13/cobra", "github.com/twmb/franz-go/pkg/kmsg", "github.com/HdrHistogram/hdrhistogram-go"},
		"internal/broker":  {"github.com/twmb/franz-go/pkg/kmsg", "github.com/prometheus/client_golang"},
		"internal/interop": {"github.com/twmb/franz-go"},
	}
	testModules = []string{
		"github.com/cockroachdb/datadriven",
		"github.com/rogpeppe/go-internal",
		"github.com/HdrHistogram/hdrhistogram-go",
		"github.com/twmb/franz-go",
	}
)

// checkOurs holds the table.
func checkOurs(s *source) (complaints []string) {
	allowed, known := house[s.pkg()]
	if !known {
		return []string{s.at(s.file.Package, "package %q has no row in the table of internal/lint/imports_test.go", s.pkg())}
	}
	if s.isTest() {
		return nil
	}
	for _, i := range s.file.Imports {
		name, ours := ourPackage(i.Path.Value)
		if ours && !slices.Contains(allowed, name) && !slices.Contains(allowed, "*") {
			complaints = append(complaints, s.at(i.Pos(), "%q may not import %q: imports point downward", s.pkg(), name))
		}
	}
	return complaints
}

// ourPackage is the folder of an imported package of ours.
func ourPackage(quoted string) (string, bool) {
	name, _ := strconv.Unquote(quoted)
	if name == module {
		return "", true
	}
	return strings.CutPrefix(name, module+"/")
}

// checkOthers holds the list of modules, and keeps the name log for ours.
func checkOthers(s *source) (complaints []string) {
	allowed := slices.Clone(libraryModules)
	for folder, modules := range moreModules {
		if within(s.pkg(), folder) {
			allowed = append(allowed, modules...)
		}
	}
	if s.isTest() {
		allowed = append(allowed, testModules...)
	}
	for _, i := range s.file.Imports {
		name, _ := strconv.Unquote(i.Path.Value)
		if name == "log" {
			complaints = append(complaints, s.at(i.Pos(), "the standard log is never imported: take a *slog.Logger, and log means ours"))
		}
		if importClass(i.Path.Value) != 1 {
			continue
		}
		if !slices.ContainsFunc(allowed, func(m string) bool { return within(name, m) }) {
			complaints = append(complaints, s.at(i.Pos(), "%q may not import %s", s.pkg(), name))
		}
	}
	return complaints
}

// within tells whether a slash-separated name is folder or below it.
func within(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

// importClass is 0 for the standard library, 1 for others, 2 for ours.
func importClass(quoted string) int {
	name, _ := strconv.Unquote(quoted)
	if _, ours := ourPackage(quoted); ours {
		return 2
	}
	first, _, _ := strings.Cut(name, "/")
	if strings.Contains(first, ".") {
		return 1
	}
	return 0
}

// checkImportGroups wants std, others, ours, with a blank line between.
func checkImportGroups(s *source) []string {
	for n, i := range s.file.Imports {
		if n == 0 {
			continue
		}
		before := s.file.Imports[n-1]
		class, classBefore := importClass(i.Path.Value), importClass(before.Path.Value)
		lines := s.fset.Position(i.Pos()).Line - s.fset.Position(before.End()).Line
		if class < classBefore || class > classBefore && lines < 2 {
			return []string{s.at(i.Pos(), "imports stand in three groups with a blank line between: standard library, others, ours")}
		}
	}
	return nil
}

// checkPackageName has no room for odds and ends.
func checkPackageName(s *source) []string {
	name := strings.TrimSuffix(s.file.Name.Name, "_test")
	for _, bad := range []string{"util", "utils", "common", "misc", "types", "base", "helper", "helpers"} {
		if name == bad || slices.Contains(strings.Split(path.Dir(s.path), "/"), bad) {
			return []string{s.at(s.file.Name.Pos(), "a package is one noun; %q names nothing", bad)}
		}
	}
	return nil
}

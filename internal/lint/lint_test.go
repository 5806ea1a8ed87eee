package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// module is the path of our module, root where it lies from here.
const (
	module = "github.com/oncelog/oncelog"
	root   = "../.."
)

// source is one Go file.
type source struct {
	path    string // from the root of the module, with slashes
	content []byte
	fset    *token.FileSet
	file    *ast.File
}

// pkg is the folder of the file, "" for the root.
func (s *source) pkg() string {
	if dir := path.Dir(s.path); dir != "." {
		return dir
	}
	return ""
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// at is a complaint about one place.
func (s *source) at(p token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.path, s.fset.Position(p).Line, fmt.Sprintf(format, args...))
}

func parse(name string, content []byte) (*source, error) {
	s := &source{path: name, content: content, fset: token.NewFileSet()}
	var err error
	s.file, err = parser.ParseFile(s.fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

// rules looks at one file each.
var rules = map[string]func(s *source) []string{
	"imports of ours":   checkOurs,
	"imports of others": checkOthers,
	"import groups":     checkImportGroups,
	"length":            checkLength,
	"package name":      checkPackageName,
	"exported comments": checkExportedComments,
	"quiet libraries":   checkQuiet,
	"typed atomics":     checkAtomics,
	"gofmt":             checkFormat,
	"portable paths":    checkPaths,
}

// TestHouse applies every rule to every file of the module.
func TestHouse(t *testing.T) {
	sources := load(t)
	if len(sources) < 20 {
		t.Fatalf("only %d files found below %s", len(sources), root)
	}
	for name, rule := range rules {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			for _, s := range sources {
				for _, complaint := range rule(s) {
					t.Error(complaint)
				}
			}
		})
	}
	t.Run("package-comments", func(t *testing.T) {
		for _, complaint := range checkPackageComments(sources) {
			t.Error(complaint)
		}
	})
}

// load parses the files of the module: not those of modules inside it, nor
// what go itself does not see.
func load(t *testing.T) []*source {
	t.Helper()
	var sources []*source
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(name, d)
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(relative), content)
		if err != nil {
			return err
		}
		sources = append(sources, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func skip(name string, d fs.DirEntry) error {
	if name == root {
		return nil
	}
	if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

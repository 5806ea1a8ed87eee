package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"slices"
	"strings"
)

const (
	fileLinesMax     = 500
	functionLinesMax = 70
)

// checkLength holds files, and functions outside tests, to a length.
func checkLength(s *source) (complaints []string) {
	if n := bytes.Count(s.content, []byte("\n")); n > fileLinesMax {
		complaints = append(complaints, s.at(s.file.Package, "file has %d lines, %d is the limit: split it by idea", n, fileLinesMax))
	}
	if s.isTest() {
		return complaints
	}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := s.lines(f); n > functionLinesMax {
			complaints = append(complaints, s.at(f.Pos(), "function %s has %d lines, %d is the limit", f.Name.Name, n, functionLinesMax))
		}
	}
	return complaints
}

// lines counts from the func keyword to the closing brace.
func (s *source) lines(f *ast.FuncDecl) int {
	return s.fset.Position(f.End()).Line - s.fset.Position(f.Type.Pos()).Line + 1
}

// checkPackageComments wants one for every package, in the form godoc knows.
func checkPackageComments(sources []*source) (complaints []string) {
	documented := map[string]bool{}
	for _, s := range sources {
		if s.isTest() {
			continue
		}
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = "Command "
		}
		documented[s.pkg()] = documented[s.pkg()] || s.file.Doc != nil && strings.HasPrefix(s.file.Doc.Text(), want)
	}
	for pkg, ok := range documented {
		if !ok {
			complaints = append(complaints, fmt.Sprintf("package %q has no comment that says what it is", pkg))
		}
	}
	slices.Sort(complaints)
	return complaints
}

// checkExportedComments wants a comment on what others can name: one on a
// group of constants, variables or types counts for all of it, and that of
// their type for the constants of a type. Methods of one short statement,
// and those whose meaning Go fixes, may go without.
func checkExportedComments(s *source) (complaints []string) {
	if s.isTest() || s.file.Name.Name == "main" {
		return nil
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && !s.speaksForItself(d) {
				complaints = append(complaints, s.at(d.Pos(), "%s needs a comment", d.Name.Name))
			}
		case *ast.GenDecl:
			if d.Doc != nil || d.Tok == token.IMPORT || s.ofDocumentedType(d) {
				continue
			}
			for _, spec := range d.Specs {
				if name := undocumented(spec); name != nil {
					complaints = append(complaints, s.at(name.Pos(), "%s needs a comment", name.Name))
				}
			}
		}
	}
	return complaints
}

// ofDocumentedType tells whether a group lists the values of a type that has
// its comment in the same file.
func (s *source) ofDocumentedType(group *ast.GenDecl) bool {
	first, ok := group.Specs[0].(*ast.ValueSpec)
	if !ok || group.Tok != token.CONST {
		return false
	}
	of, ok := first.Type.(*ast.Ident)
	if !ok {
		return false
	}
	for _, d := range s.file.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok || d.Tok != token.TYPE {
			continue
		}
		for _, spec := range d.Specs {
			if spec := spec.(*ast.TypeSpec); spec.Name.Name == of.Name {
				return d.Doc != nil || spec.Doc != nil || spec.Comment != nil
			}
		}
	}
	return false
}

// speaksForItself tells whether a function without a comment may be so.
func (s *source) speaksForItself(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return false
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if index, ok := receiver.(*ast.IndexExpr); ok {
		receiver = index.X
	}
	if name, ok := receiver.(*ast.Ident); ok && !name.IsExported() {
		return true
	}
	if f.Body != nil && len(f.Body.List) == 1 && s.lines(f) <= 3 {
		return true
	}
	return slices.Contains([]string{"Error", "Unwrap", "Is", "String", "Len", "Less", "Swap"}, f.Name.Name)
}

// undocumented is an exported name of a declaration that has no comment before
// or behind it, nil if there is none.
func undocumented(spec ast.Spec) *ast.Ident {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Doc == nil && spec.Comment == nil && spec.Name.IsExported() {
			return spec.Name
		}
	case *ast.ValueSpec:
		if spec.Doc == nil && spec.Comment == nil {
			if i := slices.IndexFunc(spec.Names, (*ast.Ident).IsExported); i >= 0 {
				return spec.Names[i]
			}
		}
	}
	return nil
}

// notForLibraries are doors to the process, which belongs to the program.
var notForLibraries = map[string][]string{
	"os":     {"Exit", "Stdin", "Stdout", "Stderr", "Args", "Getenv", "LookupEnv", "Environ", "Setenv", "Unsetenv"},
	"fmt":    {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"flag":   {"Parse", "String", "Int", "Bool", "Duration"},
	"signal": {"Notify", "NotifyContext", "Ignore"},
}

// checkQuiet: a library neither prints, exits, nor reads the environment.
func checkQuiet(s *source) (complaints []string) {
	if s.isTest() || within(s.pkg(), "cmd") || within(s.pkg(), "internal/interop") || s.file.Name.Name == "main" {
		return nil
	}
	for n := range ast.Preorder(s.file) {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(notForLibraries[x.Name], n.Sel.Name) {
				complaints = append(complaints, s.at(n.Pos(), "%s.%s is for programs: a library gets what it needs by its options", x.Name, n.Sel.Name))
			}
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && (x.Name == "print" || x.Name == "println") {
				complaints = append(complaints, s.at(n.Pos(), "%s is for programs", x.Name))
			}
		}
	}
	return complaints
}

// checkAtomics wants atomic.Int64 and its like: a field with a typed atomic
// cannot be read plainly by mistake.
func checkAtomics(s *source) (complaints []string) {
	for n := range ast.Preorder(s.file) {
		f, ok := n.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		x, ok := f.X.(*ast.Ident)
		if !ok || x.Name != "atomic" {
			continue
		}
		for _, deed := range []string{"Add", "Load", "Store", "Swap", "CompareAndSwap", "And", "Or"} {
			if strings.HasPrefix(f.Sel.Name, deed) {
				complaints = append(complaints, s.at(f.Pos(), "atomic.%s: use a typed atomic", f.Sel.Name))
				break
			}
		}
	}
	return complaints
}

// checkFormat is gofmt.
func checkFormat(s *source) []string {
	want, err := format.Source(s.content)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", s.path, err)}
	}
	if !bytes.Equal(s.content, want) {
		return []string{s.path + ": gofmt would change it"}
	}
	return nil
}

// checkPaths: what is read must lie in the module, wherever that is.
func checkPaths(s *source) (complaints []string) {
	for n := range ast.Preorder(s.file) {
		l, ok := n.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			continue
		}
		for _, home := range []string{"work", "root", "home"} {
			if strings.HasPrefix(strings.Trim(l.Value, "\"`"), "/"+home+"/") {
				complaints = append(complaints, s.at(l.Pos(), "%s is a place on one machine only", l.Value))
			}
		}
	}
	return complaints
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kafkaDir holds log directories that Kafka 4.1.2 wrote, and what its own
// tools say about them.
const kafkaDir = "../../testdata/kafka-4.1.2"

// object is one line of our JSON.
type object map[string]any

// text is a member as text; numbers are as they were written.
func (o object) text(name string) string {
	if v, ok := o[name]; ok && v != nil {
		return fmt.Sprint(v)
	}
	return "null"
}

// dumpJSON runs dump in this process and gives its lines by kind.
func dumpJSON(t testing.TB, args ...string) map[string][]object {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(append([]string{"dump", "-o", "json"}, args...), &stdout, &stderr); code != exitSound {
		t.Fatalf("dump %v: exit code %d\n%s", args, code, stderr.Bytes())
	}
	kinds := make(map[string][]object)
	d := json.NewDecoder(&stdout)
	d.UseNumber()
	for d.More() {
		var o object
		if err := d.Decode(&o); err != nil {
			t.Fatalf("dump %v: %v", args, err)
		}
		kind := o.text("kind")
		kinds[kind] = append(kinds[kind], o)
	}
	return kinds
}

// truthFile is one output of Kafka's DumpLogSegments and the file it is about.
type truthFile struct {
	name      string // below kafkaDir
	data      string // path of the file
	partition string
	text      string
}

// truthFiles finds the outputs about files with that suffix.
func truthFiles(t testing.TB, suffix string) []truthFile {
	t.Helper()
	var all []truthFile
	err := filepath.WalkDir(kafkaDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, suffix+".txt") || filepath.Base(filepath.Dir(path)) != "dump" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		partition := filepath.Dir(filepath.Dir(path))
		scenario := filepath.Dir(filepath.Dir(partition))
		file := truthFile{
			name:      strings.TrimPrefix(path, kafkaDir+"/"),
			data:      filepath.Join(scenario, "data", filepath.Base(partition), strings.TrimSuffix(e.Name(), ".txt")),
			partition: filepath.Base(partition),
			text:      string(text),
		}
		if _, err := os.Stat(file.data); err != nil {
			return err
		}
		all = append(all, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("no truth about %s files under %s", suffix, kafkaDir)
	}
	return all
}

// fields reads "name: value name: value …" up to the name stop.
func fields(line string) map[string]string {
	words := strings.Fields(line)
	all := make(map[string]string)
	for i := 0; i+1 < len(words); i += 2 {
		name := strings.TrimSuffix(words[i], ":")
		if name == words[i] {
			break
		}
		if strings.HasSuffix(words[i+1], ":") { // an empty value
			i--
			continue
		}
		all[name] = words[i+1]
	}
	return all
}

// sameFields compares what Kafka says with a line of ours, under the names
// that both have. Every name of Kafka's must be known.
func sameFields(t *testing.T, where string, kafka map[string]string, ours object, names map[string]string) {
	t.Helper()
	for name, want := range kafka {
		our, known := names[name]
		if !known {
			t.Errorf("%s: Kafka says %s, which the test does not know", where, name)
			continue
		}
		if got := ours.text(our); our != "" && got != want {
			t.Errorf("%s: %s is %s, want %s", where, our, got, want)
		}
	}
}

// optionalLong takes Java's wrapping off a number that may be missing.
func optionalLong(s, missing string) string {
	if s == "OptionalLong.empty" {
		return missing
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, "OptionalLong["), "]")
}

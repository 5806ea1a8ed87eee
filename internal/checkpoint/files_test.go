package checkpoint

import (
	"os"
	"path/filepath"
	"testing"
)

// kafkaDir holds log directories that Kafka 4.1.2 wrote.
const kafkaDir = "../../testdata/kafka-4.1.2"

// kafkaFiles reads every file of that name in the directories of Kafka.
func kafkaFiles(t testing.TB, name string) map[string][]byte {
	t.Helper()
	found := make(map[string][]byte)
	err := filepath.WalkDir(kafkaDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != name {
			return err
		}
		found[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("no %s under %s", name, kafkaDir)
	}
	return found
}

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestPlaceOfMachine(t *testing.T) {
	dir := t.TempDir()
	p, err := Machine().Place(dir)
	if err != nil {
		t.Fatal(err)
	}
	if p.Boot == [16]byte{} || p.Name == "" {
		t.Errorf("place %+v: no boot or no name", p)
	}
	again, err := Machine().Place(dir)
	if err != nil || again != p {
		t.Errorf("asked again: %+v (%v), want %+v", again, err, p)
	}
	if _, err := Machine().Place(dir + "/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("place of a missing directory: %v", err)
	}
	if mounts, err := os.ReadFile("/proc/mounts"); err == nil && strings.Contains(string(mounts), "tmpfs /dev/shm ") {
		if shm, err := Machine().Place("/dev/shm"); err != nil || shm.Kind != PlaceVolatile || shm.Name != "tmpfs" {
			t.Errorf("place of /dev/shm: %+v (%v), want tmpfs", shm, err)
		}
	}
}

package vfs

import (
	"errors"
	"io/fs"
	"testing"
)

func TestPlaceOfMem(t *testing.T) {
	m := NewMem()
	before, err := m.Place("/")
	if err != nil {
		t.Fatal(err)
	}
	if before.Kind != PlaceDisk {
		t.Errorf("kind %d, want a disk", before.Kind)
	}
	killed, err := m.KillClone().Place("/")
	if err != nil || killed != before {
		t.Errorf("after the end of the process %v (%v), want %v", killed, err, before)
	}
	crashed, err := m.CrashClone(CrashOptions{}).Place("/")
	if err != nil || crashed.Boot == before.Boot {
		t.Errorf("after a power loss the boot is still %x (%v)", crashed.Boot, err)
	}
	m.SetPlace(Place{Kind: PlaceRemote, Name: "nfs"})
	if p, _ := m.Place("/"); p.Kind != PlaceRemote || p.Name != "nfs" {
		t.Errorf("place %v after SetPlace", p)
	}
	if _, err := m.Place("/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("place of a missing directory: %v", err)
	}
}

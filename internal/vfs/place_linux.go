package vfs

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// bootIDPath holds a random identifier that the kernel draws when it starts.
const bootIDPath = "/proc/sys/kernel/random/boot_id"

// places are the file systems that are not simply local disks.
var places = map[int64]Place{
	unix.TMPFS_MAGIC:           {Kind: PlaceVolatile, Name: "tmpfs"},
	unix.RAMFS_MAGIC:           {Kind: PlaceVolatile, Name: "ramfs"},
	unix.OVERLAYFS_SUPER_MAGIC: {Kind: PlaceVolatile, Name: "overlay"},
	unix.NFS_SUPER_MAGIC:       {Kind: PlaceRemote, Name: "nfs"},
	unix.SMB_SUPER_MAGIC:       {Kind: PlaceRemote, Name: "smb"},
	unix.SMB2_SUPER_MAGIC:      {Kind: PlaceRemote, Name: "smb2"},
	unix.CIFS_SUPER_MAGIC:      {Kind: PlaceRemote, Name: "cifs"},
	unix.CEPH_SUPER_MAGIC:      {Kind: PlaceRemote, Name: "ceph"},
	unix.AFS_FS_MAGIC:          {Kind: PlaceRemote, Name: "afs"},
	unix.CODA_SUPER_MAGIC:      {Kind: PlaceRemote, Name: "coda"},
	unix.V9FS_MAGIC:            {Kind: PlaceRemote, Name: "9p"},
	unix.FUSE_SUPER_MAGIC:      {Kind: PlaceRemote, Name: "fuse"},
	unix.EXT4_SUPER_MAGIC:      {Name: "ext4"},
	unix.XFS_SUPER_MAGIC:       {Name: "xfs"},
	unix.BTRFS_SUPER_MAGIC:     {Name: "btrfs"},
	unix.F2FS_SUPER_MAGIC:      {Name: "f2fs"},
}

func (machine) Place(dir string) (Place, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return Place{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	p, known := places[int64(uint32(stat.Type))]
	if !known {
		p.Name = fmt.Sprintf("file system %#x", uint32(stat.Type))
	}
	text, err := os.ReadFile(bootIDPath)
	if err != nil {
		return Place{}, err
	}
	id, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err != nil || len(id) != len(p.Boot) {
		return Place{}, fmt.Errorf("vfs: %s holds no identifier: %q", bootIDPath, text)
	}
	copy(p.Boot[:], id)
	return p, nil
}

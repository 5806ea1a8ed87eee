package bench

import "testing"

const mountinfo = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,noatime - ext4 /dev/vda rw,discard
31 27 259:1 / /var rw,relatime shared:1 - xfs /dev/nvme0n1p1 rw
32 31 0:40 / /var/my\040data rw - tmpfs none rw,size=4k
33 27 0:41 / /variable rw - overlay overlay rw
broken line
`

func TestMountOf(t *testing.T) {
	for path, want := range map[string]mount{
		"/":                {"/", "ext4", "/dev/vda", "rw,noatime"},
		"/srv/data":        {"/", "ext4", "/dev/vda", "rw,noatime"},
		"/var":             {"/var", "xfs", "/dev/nvme0n1p1", "rw,relatime"},
		"/var/lib/x":       {"/var", "xfs", "/dev/nvme0n1p1", "rw,relatime"},
		"/var/my data/log": {"/var/my data", "tmpfs", "none", "rw"},
		"/variant":         {"/", "ext4", "/dev/vda", "rw,noatime"},
		"/variable/x":      {"/variable", "overlay", "overlay", "rw"},
	} {
		if got := mountOf(mountinfo, path); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}

func TestCPUModel(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nmodel name\t: AMD EPYC 9R14\nflags\t: fpu\n\nprocessor\t: 1\nmodel name\t: other\n": "AMD EPYC 9R14",
		"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\nprocessor\t: 1\n":                     "0x41 0xd40",
		"": "",
	} {
		if got := cpuModel(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestField(t *testing.T) {
	text := "rchar: 12\nwchar: 3456\nVmRSS:\t  78 kB\nbad: x\n"
	for name, want := range map[string]int64{"wchar:": 3456, "rchar:": 12, "VmRSS:": 78, "bad:": 0, "none:": 0} {
		if got := field(text, name); got != want {
			t.Errorf("%s %d, want %d", name, got, want)
		}
	}
}

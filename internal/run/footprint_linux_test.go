package run

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindReadOnlyMappings(t *testing.T) {
	const maps = `00400000-01c3d000 r-xp 00000000 fe:00 131 /usr/bin/main stay
01c3d000-03200000 r--p 0183d000 fe:00 131 /usr/bin/main stay
03200000-0333b000 rw-p 02e00000 fe:00 131 /usr/bin/main stay
0333b000-033a1000 rw-p 00000000 00:00 0
c000000000-c000400000 rw-p 00000000 00:00 0
7f0000000000-7f0000001000 r--p 00000000 fe:00 99 /usr/lib/other
7ffd1000-7ffd3000 r-xp 00000000 00:00 0 [vdso]
`

	got, err := findReadOnlyMappings(strings.NewReader(maps), "/usr/bin/main stay")
	if err != nil {
		t.Fatal(err)
	}

	want := []mapping{{0x400000, 0x1c3d000}, {0x1c3d000, 0x3200000}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mapping{})); diff != "" {
		t.Error(diff)
	}
	if _, err := findReadOnlyMappings(strings.NewReader("zz-1 r--p 0 0 0 /a"), "/a"); err == nil {
		t.Error("a line that is none of proc(5) was taken")
	}
}

// The program continues after its pages are released, and uses less memory than before.
func TestReleaseProgramPages(t *testing.T) {
	before := fileResident(t)
	if err := releaseProgramPages(); err != nil {
		t.Fatal(err)
	}
	if after := fileResident(t); after >= before {
		t.Errorf("%d kB of files are in memory, before it were %d", after, before)
	}
}

// fileResident returns the resident memory of this process that is backed by files, in kB.
func fileResident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}

	_, rest, ok := strings.Cut(string(status), "RssFile:")
	if !ok {
		t.Skip("this kernel does not tell how much of files is in memory")
	}

	var kB int
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		t.Fatal(err)
	}

	return kB
}

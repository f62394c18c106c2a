package run

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgramPages releases the resident pages of the program file. Most of them were read by code that runs
// once, such as the registration of types. Pages that are required again are read from the file.
//
// Only mappings without write permission are released, because their content is in the file.
func releaseProgramPages() error {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}

	mappings, err := findReadOnlyMappings(maps, program)
	if err != nil {
		return err
	}

	for _, m := range mappings {
		// A file that was just written can be cached in huge pages of up to 2 MiB, which a single access
		// would map again completely. A kernel without huge pages returns an error, which is ignored.
		_ = m.adviseKernel(unix.MADV_NOHUGEPAGE)
		if err := m.adviseKernel(unix.MADV_DONTNEED); err != nil {
			return fmt.Errorf("releasing the pages of %s at %x: %w", program, m.start, err)
		}
	}

	return nil
}

// mapping is a memory mapping of a process.
type mapping struct{ start, end uintptr }

// adviseKernel advises the kernel about the use of the mapping (madvise(2)).
func (m mapping) adviseKernel(advice uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, advice); errno != 0 {
		return errno
	}
	return nil
}

// findReadOnlyMappings returns the mappings of a program file without write permission. The input has the format
// of /proc/PID/maps (proc(5)).
func findReadOnlyMappings(maps io.Reader, program string) ([]mapping, error) {
	var found []mapping
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || strings.Contains(fields[1], "w") || strings.Join(fields[5:], " ") != program {
			continue
		}

		var m mapping
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.start, &m.end); err != nil {
			return nil, fmt.Errorf("parsing the mappings of this process: %q: %w", fields[0], err)
		}

		found = append(found, m)
	}

	return found, lines.Err()
}

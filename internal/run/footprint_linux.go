package run

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// returnProgram returns the memory that holds pages of the program's file. Nearly all of
// them were read by what runs once, such as the registration of types; those that are
// needed again come back from the file.
//
// Only mappings that cannot be written are given back: what they hold is in the file.
func returnProgram() error {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}

	defer maps.Close()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}

	mappings, err := readOnlyMappings(maps, program)
	if err != nil {
		return err
	}

	for _, m := range mappings {
		// A file that was just written lies in memory in pieces of up to 2 MiB, each of which one
		// access would bring back as a whole. A kernel that knows no such pieces refuses; nothing is lost.
		_ = m.advise(unix.MADV_NOHUGEPAGE)
		if err := m.advise(unix.MADV_DONTNEED); err != nil {
			return fmt.Errorf("giving back the pages of %s at %x: %w", program, m.start, err)
		}
	}

	return nil
}

// mapping is a part of a process's memory.
type mapping struct{ start, end uintptr }

// advise tells the kernel how the memory is used (madvise(2)).
func (m mapping) advise(advice uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, advice); errno != 0 {
		return errno
	}
	return nil
}

// readOnlyMappings finds what of a program's file is mapped without the right to write, in
// the form of /proc/PID/maps (proc(5)).
func readOnlyMappings(maps io.Reader, program string) ([]mapping, error) {
	var found []mapping
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || strings.Contains(fields[1], "w") || strings.Join(fields[5:], " ") != program {
			continue
		}

		var m mapping
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.start, &m.end); err != nil {
			return nil, fmt.Errorf("the mappings of this process: %q: %w", fields[0], err)
		}

		found = append(found, m)
	}

	return found, lines.Err()
}

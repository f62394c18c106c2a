// Command peak runs a program and writes its resource usage to file descriptor 3: its peak
// resident memory in kB, and its processor time in seconds.
//
// It is intentionally small. Until a new process is replaced by its program, Linux counts the
// memory of its parent. A large parent can therefore not measure a small program.
package main

import (
	"os"
	"strconv"
	"syscall"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(2)
	}

	process, err := os.StartProcess(os.Args[1], os.Args[1:], &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}

	state, err := process.Wait()
	if err != nil {
		os.Exit(1)
	}

	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		os.Exit(1)
	}

	seconds := (state.UserTime() + state.SystemTime()).Seconds()
	line := strconv.FormatInt(usage.Maxrss, 10) + " " + strconv.FormatFloat(seconds, 'f', 4, 64) + "\n"
	if _, err := os.NewFile(3, "report").WriteString(line); err != nil {
		os.Exit(1)
	}

	os.Exit(state.ExitCode())
}

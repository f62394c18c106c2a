// Command peak runs a program and writes to file descriptor 3 what it used: its most
// resident memory in kB, and its processor time in seconds.
//
// It is small on purpose. Linux counts for a program the memory of the one that started
// it, until it is replaced, so that a large one cannot measure a small one.
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

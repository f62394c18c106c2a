// Command peak runs a program and writes its resource usage to file descriptor 3: its peak
// resident memory and its peak anonymous memory in kB, and its processor time in seconds.
//
// It is intentionally small. Until a new process is replaced by its program, Linux counts the
// memory of its parent. A large parent can therefore not measure a small program.
package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
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

	done, anonymous := make(chan struct{}), make(chan int64)
	go func() { anonymous <- samplePeakAnonymous(process.Pid, done) }()
	state, err := process.Wait()
	close(done)
	if err != nil {
		os.Exit(1)
	}

	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		os.Exit(1)
	}

	seconds := (state.UserTime() + state.SystemTime()).Seconds()
	line := strconv.FormatInt(usage.Maxrss, 10) + " " + strconv.FormatInt(<-anonymous, 10) + " " + strconv.FormatFloat(seconds, 'f', 4, 64) + "\n"
	if _, err := os.NewFile(3, "report").WriteString(line); err != nil {
		os.Exit(1)
	}

	os.Exit(state.ExitCode())
}

// samplePeakAnonymous returns the largest anonymous memory of a process in kB. It samples the
// memory every millisecond until done is closed, because Linux records only the peak of the total.
func samplePeakAnonymous(pid int, done <-chan struct{}) int64 {
	var peak int64
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return peak
		case <-ticker.C:
			peak = max(peak, readAnonymous(pid))
		}
	}
}

// readAnonymous returns the anonymous memory of a process in kB, or 0 if it has exited.
func readAnonymous(pid int) int64 {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}

	_, rest, _ := bytes.Cut(status, []byte("RssAnon:"))
	value, _, _ := bytes.Cut(rest, []byte("kB"))
	kB, _ := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
	return kB
}

package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// LockedError says that a supervisor runs on the data directory.
type LockedError struct {
	Dir Dir
	// PID is the supervisor's process, 0 when it is so young that it has not written it yet.
	PID int
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("a cluster runs on %s already (process %d); stop it with `devcluster down --data-dir %s`, "+
		"or give another --data-dir", e.Dir, e.PID, e.Dir)
}

// Lock is held by the supervisor for as long as it lives. The kernel releases it when the process ends, however it ends:
// a file that stayed behind never says that a dead cluster runs.
type Lock struct{ file *os.File }

// Acquire takes the lock of the data directory, which must exist, and writes the caller's process id into it.
// It returns a *LockedError when another process holds it.
func (d Dir) Acquire() (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(string(d), lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}

	if err := flockPatiently(file); err != nil {
		defer file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &LockedError{Dir: d, PID: readPID(file)}
		}
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}

	if err := errors.Join(file.Truncate(0), writePID(file)); err != nil {
		file.Close()
		return nil, fmt.Errorf("write the process id into the lock: %w", err)
	}

	return &Lock{file: file}, nil
}

// flockPatiently tries for 100 ms: `status` holds the lock for an instant while it asks who holds it.
func flockPatiently(file *os.File) error {
	for attempt := 1; ; attempt++ {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || attempt == 10 || !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Release returns the lock back.
func (l *Lock) Release() error { return l.file.Close() }

// Holder is the process id of the supervisor that runs on the data directory. Running is false when there is none.
func (d Dir) Holder() (pid int, running bool, err error) {
	file, err := os.OpenFile(filepath.Join(string(d), lockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	defer file.Close() // Gives the lock back, had we taken it.
	// A shared lock: two that ask at the same time must not take each other for the supervisor.
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return readPID(file), true, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("ask for the lock of the data directory: %w", err)
	}

	return 0, false, nil
}

func writePID(file *os.File) error {
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func readPID(file *os.File) int {
	buffer := make([]byte, 32) // A process id has at most 7 digits on Linux.
	n, _ := file.ReadAt(buffer, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buffer[:n])))
	if err != nil {
		return 0
	}
	return pid
}

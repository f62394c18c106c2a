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

// LockedError reports that a supervisor runs on the data directory.
type LockedError struct {
	Dir Dir
	// PID is the process ID of the supervisor, or 0 if it has not written the ID yet.
	PID int
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("a cluster runs on %s already (process %d); stop it with `devcluster down --data-dir %s`, "+
		"or use another --data-dir", e.Dir, e.PID, e.Dir)
}

// Lock is held by the supervisor until its process ends. The kernel then releases it, even after a crash. A lock file
// that is left behind therefore does not mean that a cluster runs.
type Lock struct{ file *os.File }

// AcquireLock locks the data directory, which must exist, and writes the process ID of the caller into the lock file. It
// returns a *LockedError if another process holds the lock.
func AcquireLock(d Dir) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(string(d), lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}

	if err := flockWithRetry(file); err != nil {
		defer file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &LockedError{Dir: d, PID: readProcessID(file)}
		}
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}

	if err := errors.Join(file.Truncate(0), writeProcessID(file)); err != nil {
		file.Close()
		return nil, fmt.Errorf("write the process id into the lock: %w", err)
	}

	return &Lock{file: file}, nil
}

// flockWithRetry tries for 100 ms, because `status` holds the lock for an instant while it checks for a holder.
func flockWithRetry(file *os.File) error {
	for attempt := 1; ; attempt++ {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || attempt == 10 || !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Release releases the lock.
func (l *Lock) Release() error { return l.file.Close() }

// LockHolder returns the process ID of the supervisor that runs on the data directory. running is false if there is none.
func LockHolder(d Dir) (pid int, running bool, err error) {
	file, err := os.OpenFile(filepath.Join(string(d), lockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	defer file.Close() // Also releases the lock, if it was taken.
	// The lock is shared, so that two concurrent calls do not take each other for the supervisor.
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return readProcessID(file), true, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("test the lock of the data directory: %w", err)
	}

	return 0, false, nil
}

func writeProcessID(file *os.File) error {
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func readProcessID(file *os.File) int {
	buffer := make([]byte, 32) // A process id has at most 7 digits on Linux.
	n, _ := file.ReadAt(buffer, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buffer[:n])))
	if err != nil {
		return 0
	}
	return pid
}

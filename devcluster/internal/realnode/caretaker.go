package realnode

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
	"github.com/mainstay-dev/mainstay/devcluster/internal/supervise"
)

// caretaker is a process that cleans up after the supervisor, even if the supervisor was killed. It detects the end of
// the supervisor by a pipe whose other end only the supervisor has. Until it has finished, it holds the lock that the
// next run waits for.
type caretaker struct {
	command *exec.Cmd
	pipe    *os.File
	logFile string
}

// caretakerLog is the name of the caretaker's log.
const caretakerLog = "caretaker"

// startCaretaker starts the caretaker and passes the lock to it. The lock is released when the caretaker ends.
func startCaretaker(dir state.Dir, lock *os.File) (*caretaker, error) {
	defer lock.Close()
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the caretaker: %w", err)
	}

	log, err := os.OpenFile(dir.Log(caretakerLog), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start the caretaker: %w", err)
	}
	defer log.Close()
	readEnd, writeEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the caretaker: %w", err)
	}
	defer readEnd.Close()
	command := &exec.Cmd{
		Path: path, Args: []string{CaretakerProgram, "--dir=" + string(dir)},
		Stdin: readEnd, Stdout: log, Stderr: log, ExtraFiles: []*os.File{lock},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // Neither Ctrl-C nor a closed terminal reaches it.
	}
	if err := command.Start(); err != nil {
		writeEnd.Close()
		return nil, fmt.Errorf("start the caretaker: %w", err)
	}

	return &caretaker{command: command, pipe: writeEnd, logFile: dir.Log(caretakerLog)}, nil
}

// cleanUpAndWait makes the caretaker clean up and waits until it has finished.
func (c *caretaker) cleanUpAndWait() error {
	c.pipe.Close()
	if err := c.command.Wait(); err != nil {
		return fmt.Errorf("clean up after the node: %w; the caretaker's log:\n%s", err, supervise.Tail(c.logFile, 20))
	}
	return nil
}

// CaretakerMain runs the caretaker: it waits for the end of the supervisor and cleans up. It returns the exit code.
func CaretakerMain(args []string) int {
	var path string
	flags := pflag.NewFlagSet(CaretakerProgram, pflag.ContinueOnError)
	flags.StringVar(&path, "dir", "", "the data directory")
	if err := flags.Parse(args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", CaretakerProgram, err)
		return 2
	}

	_, _ = io.Copy(io.Discard, os.Stdin) // Returns when the supervisor ends.
	if err := revertHostChanges(state.Dir(path)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", CaretakerProgram, err)
		return 1
	}

	return 0
}

// Cleanup reverts the changes that a node of an earlier run left on the machine. If the caretaker of that run is still
// at work, Cleanup waits for it. The supervisor of the data directory must not be running.
func Cleanup(dir state.Dir) error {
	if _, found, err := readHostChanges(dir.Node()); err != nil || !found {
		return err
	}

	lock, err := acquireNodeLock(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	return revertHostChanges(dir)
}

// acquireNodeLock waits for the lock that protects the changes to the machine for this data directory.
func acquireNodeLock(dir state.Dir) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir.Node(), lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the node: %w", err)
	}

	for {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}

	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock the node: %w", err)
	}

	return lock, nil
}

// revertHostChanges reverts the recorded changes and deletes their record. It does nothing if there is no record.
func revertHostChanges(dir state.Dir) error {
	changed, found, err := readHostChanges(dir.Node())
	if err != nil || !found {
		return err
	}
	if err := changed.revertChanges(); err != nil {
		return fmt.Errorf("revert the changes of the node to this machine: %w", err)
	}
	return os.Remove(filepath.Join(dir.Node(), hostChangesFile))
}

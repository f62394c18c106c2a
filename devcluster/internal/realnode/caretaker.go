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

// caretaker is a process that outlives the supervisor, whatever ends it, and then cleans up. It learns of the end by a pipe
// whose other end nobody but the supervisor has, and until it is done it holds the lock that the next run waits for.
type caretaker struct {
	command *exec.Cmd
	pipe    *os.File
	logFile string
}

// caretakerLog names its log.
const caretakerLog = "caretaker"

// startCaretaker takes over the lock: it is released when the caretaker ends.
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
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the caretaker: %w", err)
	}
	defer theirs.Close()
	command := &exec.Cmd{
		Path: path, Args: []string{CaretakerProgram, "--dir=" + string(dir)},
		Stdin: theirs, Stdout: log, Stderr: log, ExtraFiles: []*os.File{lock},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // Neither Ctrl-C nor a closed terminal reaches it.
	}
	if err := command.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the caretaker: %w", err)
	}

	return &caretaker{command: command, pipe: ours, logFile: dir.Log(caretakerLog)}, nil
}

// finish lets the caretaker clean up and waits for it.
func (c *caretaker) finish() error {
	c.pipe.Close()
	if err := c.command.Wait(); err != nil {
		return fmt.Errorf("clean up after the node: %w; the caretaker's log:\n%s", err, supervise.Tail(c.logFile, 20))
	}
	return nil
}

// CaretakerMain waits for the end of the supervisor and cleans up.
func CaretakerMain(args []string) int {
	var path string
	flags := pflag.NewFlagSet(CaretakerProgram, pflag.ContinueOnError)
	flags.StringVar(&path, "dir", "", "the data directory")
	if err := flags.Parse(args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", CaretakerProgram, err)
		return 2
	}

	_, _ = io.Copy(io.Discard, os.Stdin) // Ends with the supervisor.
	if err := undoAll(state.Dir(path)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", CaretakerProgram, err)
		return 1
	}

	return 0
}

// Cleanup takes back what a node of an earlier run left on the machine, as its caretaker would have. It waits for that
// caretaker if it is still at work. The supervisor of the data directory must not be running.
func Cleanup(dir state.Dir) error {
	if _, found, err := readHost(dir.Node()); err != nil || !found {
		return err
	}

	lock, err := lockNode(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	return undoAll(dir)
}

// lockNode waits for the lock of whoever changes the machine for this data directory.
func lockNode(dir state.Dir) (*os.File, error) {
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

// undoAll undoes what is written down, and deletes the note when all is undone.
func undoAll(dir state.Dir) error {
	changed, found, err := readHost(dir.Node())
	if err != nil || !found {
		return err
	}
	if err := changed.undo(); err != nil {
		return fmt.Errorf("undo what the node changed on this machine: %w", err)
	}
	return os.Remove(filepath.Join(dir.Node(), markerFile))
}

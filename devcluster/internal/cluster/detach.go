package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
	"github.com/mainstay-dev/mainstay/devcluster/internal/supervise"
)

// SupervisorLog is the name of the log of a supervisor in the background.
const SupervisorLog = "supervisor"

// progressFD is the descriptor of the pipe through which a supervisor in the background reports its start. It is the
// first descriptor that exec.Cmd passes to a child.
const progressFD = 3

// readyMark ends the report of a start that succeeded. No line of the report contains this byte.
const readyMark = 0

// Detach starts `devcluster args...` in its own session, copies its progress to out and returns when the cluster is
// ready. args must make the process report with Progress.
func Detach(ctx context.Context, dir state.Dir, args []string, out io.Writer) error {
	if err := dir.Create(); err != nil {
		return err
	}

	if pid, running, err := state.LockHolder(dir); err != nil {
		return err
	} else if running {
		return &state.LockedError{Dir: dir, PID: pid}
	}

	path, err := ownExecutablePath()
	if err != nil {
		return err
	}

	log, err := os.OpenFile(dir.Log(SupervisorLog), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	progress, childEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer progress.Close()
	supervisor := exec.Command(path, args...) //nolint:gosec,noctx // devcluster itself, which outlives this process.
	supervisor.Stdout, supervisor.Stderr = log, log
	supervisor.ExtraFiles = []*os.File{childEnd}
	supervisor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = supervisor.Start()
	childEnd.Close()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}

	interrupted := context.AfterFunc(ctx, func() { _ = supervisor.Process.Signal(syscall.SIGTERM) })
	defer interrupted()
	if copyProgress(out, progress) {
		return supervisor.Process.Release()
	}

	waitErr := supervisor.Wait()
	return fmt.Errorf("the cluster did not start (%w):\n%s", supervisorExitReason(waitErr),
		supervise.Tail(dir.Log(SupervisorLog), 25))
}

func supervisorExitReason(err error) error {
	if err == nil {
		return errors.New("the supervisor ended")
	}
	return err
}

// copyProgress copies lines until their end and reports whether the mark of a successful start arrived.
func copyProgress(out io.Writer, progress io.Reader) (ready bool) {
	buffer := make([]byte, 4096)
	for {
		n, err := progress.Read(buffer)
		chunk := buffer[:n]
		if i := bytes.IndexByte(chunk, readyMark); i >= 0 {
			chunk, ready = chunk[:i], true
		}

		_, _ = out.Write(chunk) // A closed terminal does not stop the cluster.
		if ready || err != nil {
			return ready
		}
	}
}

// Progress is the end of the pipe to Detach. Lines written to it reach the process that waits for the start, until
// Ready.
type Progress struct{ pipe *os.File }

// NewProgress opens the pipe that Detach passed to this process.
func NewProgress() *Progress {
	syscall.CloseOnExec(progressFD) // No component may hold it open.
	return &Progress{pipe: os.NewFile(progressFD, "progress")}
}

// Write writes lines to the process that waits. It ignores errors, because that process may have ended.
func (p *Progress) Write(lines []byte) (int, error) {
	_, _ = p.pipe.Write(lines)
	return len(lines), nil
}

// Ready reports that the cluster is ready and closes the pipe.
func (p *Progress) Ready() {
	_, _ = p.pipe.Write([]byte{readyMark})
	_ = p.pipe.Close()
}

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

// SupervisorLog names the log of a supervisor in the background.
const SupervisorLog = "supervisor"

// progressFD is the descriptor of the pipe that a supervisor in the background reports its start by: the first that
// exec.Cmd hands on.
const progressFD = 3

// readyMark ends the report of a start that succeeded. No line of it holds such a byte.
const readyMark = 0

// Detach starts `devcluster args...` in a session of its own, copies what it reports to out and returns when it is ready.
// The arguments must make it report by Progress.
func Detach(ctx context.Context, dir state.Dir, args []string, out io.Writer) error {
	if err := dir.Create(); err != nil {
		return err
	}

	if pid, running, err := dir.Holder(); err != nil {
		return err
	} else if running {
		return &state.LockedError{Dir: dir, PID: pid}
	}

	path, err := executable()
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
	supervisor := exec.Command(path, args...) //nolint:gosec,noctx // Our own program, which outlives this one.
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
	return fmt.Errorf("the cluster did not start (%w):\n%s", exitReason(waitErr),
		supervise.Tail(dir.Log(SupervisorLog), 25))
}

func exitReason(err error) error {
	if err == nil {
		return errors.New("the supervisor ended")
	}
	return err
}

// copyProgress copies lines until their end, and says whether the mark of a successful start came.
func copyProgress(out io.Writer, progress io.Reader) (ready bool) {
	buffer := make([]byte, 4096)
	for {
		n, err := progress.Read(buffer)
		chunk := buffer[:n]
		if i := bytes.IndexByte(chunk, readyMark); i >= 0 {
			chunk, ready = chunk[:i], true
		}

		_, _ = out.Write(chunk) // A terminal that is gone stops no cluster.
		if ready || err != nil {
			return ready
		}
	}
}

// Progress is the other end of Detach: lines written to it reach whoever waits for the start, until Ready.
type Progress struct{ pipe *os.File }

// NewProgress takes over the pipe that Detach handed to this process.
func NewProgress() *Progress {
	syscall.CloseOnExec(progressFD) // No component may hold it open.
	return &Progress{pipe: os.NewFile(progressFD, "progress")}
}

// Write writes to whoever waits, if anybody still does: to have no reader is no error.
func (p *Progress) Write(lines []byte) (int, error) {
	_, _ = p.pipe.Write(lines)
	return len(lines), nil
}

// Ready ends the report: the cluster runs.
func (p *Progress) Ready() {
	_, _ = p.pipe.Write([]byte{readyMark})
	_ = p.pipe.Close()
}

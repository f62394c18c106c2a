package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Process is a program that runs beside the tests.
type Process struct {
	cmd    *exec.Cmd
	name   string
	log    string
	exited chan struct{}
	// err is how it ended, once exited is closed.
	err error
}

// EndedError is a process that ended by itself.
type EndedError struct {
	// Name is what the process is called, and LogEnd the end of what it logged.
	Name, LogEnd string
	Err          error
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("%s ended by itself: %v\n%s", e.Name, e.Err, e.LogEnd)
}

// Unwrap returns how it ended.
func (e *EndedError) Unwrap() error { return e.Err }

// Launch starts a command, which logs to a file that is continued when it exists. The process
// outlives the caller's context: it ends by Stop or Kill.
func Launch(name, log string, cmd *exec.Cmd) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}

	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}

	p := &Process{cmd: cmd, name: name, log: log, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Alive fails, by an *EndedError, when the process has ended by itself.
func (p *Process) Alive() error {
	select {
	case <-p.exited:
		return &EndedError{Name: p.name, LogEnd: p.LogEnd(), Err: cmp.Or(p.err, errors.New("exit status 0"))}
	default:
		return nil
	}
}

// Stop ends the process as Kubernetes does, and waits until it has ended.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(os.Interrupt) // It may have ended by itself.
	select {
	case <-p.exited:
		if p.err != nil {
			return &EndedError{Name: p.name, LogEnd: p.LogEnd(), Err: p.err}
		}
		return nil
	case <-time.After(stopTime):
		p.Kill()
		return fmt.Errorf("%s did not stop within %s and was killed", p.name, stopTime)
	}
}

// Kill ends the process at once, wherever it is in its work, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // It may have ended by itself.
	<-p.exited
}

// LogEnd is the end of what the process logged.
func (p *Process) LogEnd() string {
	const lines = 20
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

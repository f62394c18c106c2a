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

// Process is a program that runs at the same time as the tests.
type Process struct {
	cmd    *exec.Cmd
	name   string
	log    string
	exited chan struct{}
	// err is the result of the process, set once exited is closed.
	err error
}

// EndedError is the error for a process that ended by itself.
type EndedError struct {
	// Name is the name of the process, and LogEnd the end of its log.
	Name, LogEnd string
	Err          error
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("%s ended by itself: %v\n%s", e.Name, e.Err, e.LogEnd)
}

// Unwrap returns the error of the process.
func (e *EndedError) Unwrap() error { return e.Err }

// Launch starts a command and appends its output to a log file. The process outlives the caller's
// context; Stop or Kill end it.
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

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// CheckRunning returns an *EndedError if the process has ended by itself.
func (p *Process) CheckRunning() error {
	select {
	case <-p.exited:
		return &EndedError{Name: p.name, LogEnd: p.LogEnd(), Err: cmp.Or(p.err, errors.New("exit status 0"))}
	default:
		return nil
	}
}

// Stop stops the process as Kubernetes does, and waits until it has ended.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(os.Interrupt) // It may have ended by itself.
	select {
	case <-p.exited:
		if p.err != nil {
			return &EndedError{Name: p.name, LogEnd: p.LogEnd(), Err: p.err}
		}
		return nil
	case <-time.After(stopTimeout):
		p.Kill()
		return fmt.Errorf("%s did not stop within %s and was killed", p.name, stopTimeout)
	}
}

// Kill kills the process immediately and waits until it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // It may have ended by itself.
	<-p.exited
}

// LogEnd returns the last lines of the log.
func (p *Process) LogEnd() string {
	const lines = 20
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Package supervise starts child processes, waits for them to be ready, notices when one dies and stops them in order.
//
// A child writes to its own log file and to nothing else. It never outlives the supervisor: the kernel kills it when the
// supervisor is gone, for whatever reason. What the children are is decided by package components.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Command says how to start a child.
type Command struct {
	// Name of the component: in messages, in `status`, and of its log.
	Name string
	// Path of the executable, and its arguments; args[0] is the name that the program is called by.
	Path string
	Args []string
	// Env is added to the supervisor's environment.
	Env []string
	// LogFile is emptied at the start.
	LogFile string
	// Namespaces is a process whose namespaces the child joins, 0 to stay in the supervisor's. Linux only.
	Namespaces int
	// NewNamespaces are the clone flags of namespaces that the child gets for itself. Linux only.
	NewNamespaces uintptr
	// Files are open files that the child has from descriptor 3 on. They stay the caller's to close.
	Files []*os.File
	// StopGrace is how long the child may take to end after SIGTERM before it is killed. 0 kills at once.
	StopGrace time.Duration
}

// Process is a child that was started.
type Process struct {
	Command

	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended; written before ended is closed
}

// DiedError says that a component ended although nobody asked it to.
type DiedError struct {
	Component string
	LogFile   string
	// Err is the exit status.
	Err error
	// LogEnd is the last lines of its log, "" when it wrote none.
	LogEnd string
}

func (e *DiedError) Error() string {
	if e.LogEnd == "" {
		return fmt.Sprintf("%s died: %v; its log %s is empty", e.Component, e.Err, e.LogFile)
	}
	return fmt.Sprintf("%s died: %v; the end of its log %s:\n%s", e.Component, e.Err, e.LogFile, e.LogEnd)
}

func (e *DiedError) Unwrap() error { return e.Err }

// Start starts the child.
func Start(command Command) (*Process, error) {
	log, err := os.OpenFile(command.LogFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log: %w", command.Name, err)
	}
	defer log.Close() // The child has its own descriptor of it.
	cmd := &exec.Cmd{
		Path: command.Path, Args: command.Args, Env: append(os.Environ(), command.Env...),
		Stdout: log, Stderr: log, ExtraFiles: command.Files,
	}
	process := &Process{Command: command, cmd: cmd, ended: make(chan struct{})}
	if err := spawn(cmd, command); err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Name, err)
	}

	go func() {
		process.err = cmd.Wait()
		close(process.ended)
	}()
	return process, nil
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the child is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Died describes the end of a child that nobody asked to end. Call it after Ended.
func (p *Process) Died() *DiedError {
	<-p.ended
	err := p.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return &DiedError{Component: p.Name, LogFile: p.LogFile, Err: err, LogEnd: Tail(p.LogFile, diedLines)}
}

// diedLines of a log show the fatal message and what led to it, and still fit a terminal.
const diedLines = 15

// Stop asks the child to end, kills it after its grace period or when ctx ends, and waits until it is gone.
func (p *Process) Stop(ctx context.Context) {
	if p.StopGrace > 0 {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // An error means that it is gone already.
		grace := time.NewTimer(p.StopGrace)
		defer grace.Stop()
		select {
		case <-p.ended:
			return
		case <-grace.C:
		case <-ctx.Done():
		}
	}

	_ = p.cmd.Process.Kill()
	<-p.ended
}

// WaitReady asks ready again and again until it gives no error. It gives up when the child ends (*DiedError) or ctx does.
func (p *Process) WaitReady(ctx context.Context, ready func(context.Context) error) error {
	// Short, because the whole start is a matter of seconds; a question costs well under a millisecond.
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	var latest error
	for {
		select {
		case <-p.ended:
			return p.Died()
		case <-ctx.Done():
			if latest == nil {
				return fmt.Errorf("%s: %w", p.Name, context.Cause(ctx))
			}
			return fmt.Errorf("%s is not ready: %w; the latest answer was: %w; its log is %s",
				p.Name, context.Cause(ctx), latest, p.LogFile)
		case <-ticks.C:
			attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
			latest = ready(attempt)
			cancel()
			if latest == nil {
				return nil
			}
		}
	}
}

// attemptTimeout bounds one question to a component that accepts connections but does not answer yet.
const attemptTimeout = 2 * time.Second

// Package supervise starts child processes, waits until they are ready, reports when one dies and stops them in order.
//
// A child writes only to its own log file. It never outlives the supervisor: the kernel kills it when the supervisor
// ends for any reason. Package components decides what the children are.
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

// Command describes how to start a child process.
type Command struct {
	// Name is the name of the component, for messages, `status` and the log.
	Name string
	// Path is the path of the executable. Args are its arguments; Args[0] is the name by which the program is called.
	Path string
	Args []string
	// Env is added to the supervisor's environment.
	Env []string
	// LogFile receives the output of the child. It is truncated at the start.
	LogFile string
	// Namespaces is a process whose namespaces the child joins. If 0, the child stays in the supervisor's. Linux only.
	Namespaces int
	// NewNamespaces are the clone flags of the namespaces that are created for the child. Linux only.
	NewNamespaces uintptr
	// Files are open files that the child inherits, from descriptor 3 on. The caller still has to close them.
	Files []*os.File
	// StopGrace is how long the child may take to end after SIGTERM before it is killed. If 0, it is killed at once.
	StopGrace time.Duration
}

// Process is a child process that was started.
type Process struct {
	Command

	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended; written before ended is closed
}

// DiedError reports that a component ended although nothing asked it to stop.
type DiedError struct {
	Component string
	LogFile   string
	// Err is the exit status.
	Err error
	// LogEnd is the last lines of the component's log, or "" if the log is empty.
	LogEnd string
}

func (e *DiedError) Error() string {
	if e.LogEnd == "" {
		return fmt.Sprintf("%s died: %v; its log %s is empty", e.Component, e.Err, e.LogFile)
	}
	return fmt.Sprintf("%s died: %v; the end of its log %s:\n%s", e.Component, e.Err, e.LogFile, e.LogEnd)
}

func (e *DiedError) Unwrap() error { return e.Err }

// Start starts the child process. It truncates the log file and redirects the output of the child to it.
func Start(command Command) (*Process, error) {
	log, err := os.OpenFile(command.LogFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log: %w", command.Name, err)
	}
	defer log.Close() // The child has its own descriptor.
	cmd := &exec.Cmd{
		Path: command.Path, Args: command.Args, Env: append(os.Environ(), command.Env...),
		Stdout: log, Stderr: log, ExtraFiles: command.Files,
	}
	process := &Process{Command: command, cmd: cmd, ended: make(chan struct{})}
	if err := spawnProcess(cmd, command); err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Name, err)
	}

	go func() {
		process.err = cmd.Wait()
		close(process.ended)
	}()
	return process, nil
}

// PID returns the process ID of the child.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended returns a channel that is closed when the child has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Died waits until the child has ended and returns the reason as an error. It is for a child that nothing asked to
// stop.
func (p *Process) Died() *DiedError {
	<-p.ended
	err := p.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return &DiedError{Component: p.Name, LogFile: p.LogFile, Err: err, LogEnd: Tail(p.LogFile, maxDiedLogLines)}
}

// maxDiedLogLines is enough to show the fatal message and its context, and still fits a terminal.
const maxDiedLogLines = 15

// Stop asks the child to end and waits until it has ended. It kills the child after its grace period, or when ctx ends.
func (p *Process) Stop(ctx context.Context) {
	if p.StopGrace > 0 {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // An error means that the child has already ended.
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

// WaitReady calls ready until it returns nil. It returns an error when the child ends (*DiedError) or when ctx ends.
func (p *Process) WaitReady(ctx context.Context, ready func(context.Context) error) error {
	// The interval is short because the whole start takes seconds. A check costs well under a millisecond.
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
			attempt, cancel := context.WithTimeout(ctx, readinessCheckTimeout)
			latest = ready(attempt)
			cancel()
			if latest == nil {
				return nil
			}
		}
	}
}

// readinessCheckTimeout bounds one check of a component that accepts connections but does not respond yet.
const readinessCheckTimeout = 2 * time.Second

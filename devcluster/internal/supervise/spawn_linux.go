package supervise

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawnProcess starts cmd in its own process group, so that Ctrl-C in a terminal reaches only the supervisor and
// components stop in order. The kernel kills the process when the supervisor ends.
func spawnProcess(cmd *exec.Cmd, command Command) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: command.NewNamespaces}
	// A child that joins another process namespace dies with the first process of that namespace, which is our child. A death
	// signal would even prevent its start: Go checks the parent after it sets the signal, and the parent is not visible there.
	if command.Namespaces == 0 {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	return forkers.get(command.Namespaces).startCommand(cmd)
}

// forker starts processes from one dedicated thread that lives as long as the supervisor. The kernel sends the death
// signal when the thread that forked ends, not the process, and the Go runtime may end any thread. A thread that has
// joined the namespaces of another process also cannot be used for anything else.
type forker chan forkRequest

type forkRequest struct {
	cmd    *exec.Cmd
	result chan error
}

func (f forker) startCommand(cmd *exec.Cmd) error {
	result := make(chan error)
	f <- forkRequest{cmd, result}
	return <-result
}

// forkerSet has one forker for each process whose namespaces children join, and one (key 0) for all other children.
type forkerSet struct {
	mutex        sync.Mutex
	byNamespaces map[int]forker
}

var forkers = forkerSet{byNamespaces: map[int]forker{}}

func (s *forkerSet) get(namespaces int) forker {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	f, ok := s.byNamespaces[namespaces]
	if !ok {
		f = make(forker)
		s.byNamespaces[namespaces] = f
		go f.serveForkRequests(namespaces)
	}

	return f
}

// serveForkRequests starts the requested processes from a thread that has joined the given namespaces. It never
// returns.
func (f forker) serveForkRequests(namespaces int) {
	runtime.LockOSThread() // Never unlocked.
	var joinErr error
	if namespaces != 0 {
		joinErr = joinNamespaces(namespaces)
	}

	for request := range f {
		if joinErr != nil {
			request.result <- joinErr
			continue
		}
		request.result <- request.cmd.Start()
	}
}

// joinNamespaces moves the calling thread into the namespaces of a process. Only children of the thread join the
// process namespace.
func joinNamespaces(pid int) error {
	// Threads share their working directory and root. The kernel does not let such a thread change its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("detach a thread's file system state: %w", err)
	}

	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(pidfd) //nolint:errcheck // The descriptor was only read.
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	if err := unix.Setns(pidfd, flags); err != nil {
		return fmt.Errorf("join the namespaces of process %d: %w", pid, err)
	}

	return nil
}

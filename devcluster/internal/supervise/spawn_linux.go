package supervise

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawn starts cmd so that the kernel kills it when the supervisor is gone, and in its own process group, so that Ctrl-C
// in a terminal reaches the supervisor alone and components stop in order.
func spawn(cmd *exec.Cmd, command Command) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: command.NewNamespaces}
	// A child in the process namespace of another one dies with that namespace's first process, which is a child of ours.
	// For itself it would not even start: Go asks for its parent once the signal is set, and that is not to be seen there.
	if command.Namespaces == 0 {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	return forkers.get(command.Namespaces).start(cmd)
}

// forker forks from one thread of its own that lives as long as the supervisor. The death signal goes out when the thread
// that forked ends, not the process, and the Go runtime ends threads at will; and a thread that has joined the namespaces
// of another process can serve for nothing else.
type forker chan forkRequest

type forkRequest struct {
	cmd    *exec.Cmd
	result chan error
}

func (f forker) start(cmd *exec.Cmd) error {
	result := make(chan error)
	f <- forkRequest{cmd, result}
	return <-result
}

// forkerSet has one forker for each process whose namespaces children join, and one (0) for all others.
type forkerSet struct {
	mutex sync.Mutex
	of    map[int]forker
}

var forkers = forkerSet{of: map[int]forker{}}

func (s *forkerSet) get(namespaces int) forker {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	f, ok := s.of[namespaces]
	if !ok {
		f = make(forker)
		s.of[namespaces] = f
		go f.serve(namespaces)
	}

	return f
}

func (f forker) serve(namespaces int) {
	runtime.LockOSThread() // Never unlocked.
	var joinErr error
	if namespaces != 0 {
		joinErr = join(namespaces)
	}

	for request := range f {
		if joinErr != nil {
			request.result <- joinErr
			continue
		}
		request.result <- request.cmd.Start()
	}
}

// join moves the calling thread into the namespaces of a process; of its process namespace, only children are part.
func join(pid int) error {
	// Threads share their working directory and root, which the kernel refuses to split by mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("detach a thread's file system state: %w", err)
	}

	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(pidfd) //nolint:errcheck // It was only looked at.
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	if err := unix.Setns(pidfd, flags); err != nil {
		return fmt.Errorf("join the namespaces of process %d: %w", pid, err)
	}

	return nil
}

//go:build !linux

package supervise

import (
	"errors"
	"os/exec"
	"syscall"
)

// spawn starts cmd in its own process group. Only Linux can bind a child's life to that of its parent.
func spawn(cmd *exec.Cmd, command Command) error {
	if command.Namespaces != 0 || command.NewNamespaces != 0 {
		return errors.New("namespaces exist on Linux only")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}

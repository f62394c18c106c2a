//go:build !linux

package supervise

import (
	"errors"
	"os/exec"
	"syscall"
)

// spawnProcess starts cmd in its own process group. Only on Linux does the kernel kill a child when its parent ends.
func spawnProcess(cmd *exec.Cmd, command Command) error {
	if command.Namespaces != 0 || command.NewNamespaces != 0 {
		return errors.New("namespaces exist on Linux only")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}

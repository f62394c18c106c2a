//go:build unix

package daemon

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"syscall"
)

// doNotWait makes opening a file return immediately, also for named pipes.
const doNotWait = syscall.O_NONBLOCK

// ownerOf returns the IDs of the user and the group that own a file.
func ownerOf(info fs.FileInfo) (uid, gid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(stat.Uid), int(stat.Gid), true
}

// confineToRoot makes a command run with a folder as its root.
func confineToRoot(cmd *exec.Cmd, folder string) {
	if filepath.Clean(folder) != "/" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: folder}
	}
}

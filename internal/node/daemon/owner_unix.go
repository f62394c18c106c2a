//go:build unix

package daemon

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"syscall"
)

// doNotWait has the opening of a file return at once, whatever it is.
const doNotWait = syscall.O_NONBLOCK

// ownerOf returns the numbers of the user and the group that own a file.
func ownerOf(info fs.FileInfo) (uid, gid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(stat.Uid), int(stat.Gid), true
}

// confine has a command run with a folder as its root.
func confine(cmd *exec.Cmd, folder string) {
	if filepath.Clean(folder) != "/" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: folder}
	}
}

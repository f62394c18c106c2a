//go:build !unix

package daemon

import (
	"io/fs"
	"os/exec"
	"path/filepath"
)

// doNotWait is for systems with named pipes in their file systems.
const doNotWait = 0

// ownerOf returns false: files have no numeric owners on this system.
func ownerOf(fs.FileInfo) (uid, gid int, ok bool) { return 0, 0, false }

// confineToRoot makes a command fail whose root is another folder: this system cannot change the root.
func confineToRoot(cmd *exec.Cmd, folder string) {
	if filepath.Clean(folder) != "/" {
		cmd.Path = ""
	}
}

//go:build unix

package daemon

import (
	"os"
	"syscall"
	"testing"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// A named pipe where a file should be is reported, and never waited for.
func TestNamedPipes(t *testing.T) {
	pipe := func(k *kit, name string) {
		k.t.Helper()
		_ = os.Remove(k.path(name)) // it may not be there
		k.must(syscall.Mkfifo(k.path(name), 0o644))
	}
	for name, c := range map[string]struct{ at, reason string }{
		"a file of the configuration": {"etc/shared", `"/etc/shared" is no regular file, but a named pipe`},
		"the daemon's own":            {currentFile, "/etc/machine-config-daemon/currentconfig is no regular file, but a named pipe"},
		"the users":                   {"etc/passwd", "/etc/passwd is no regular file, but a named pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			k := started(t)
			one := k.config(first)
			k.update(one)
			pipe(k, c.at)
			k.sync()
			k.is(one, mcfgv1.NodeDegraded, c.reason)
		})
	}

	t.Run("a path of the next configuration", func(t *testing.T) {
		k := started(t)
		one := k.config(first)
		k.update(one)
		k.must(os.MkdirAll(k.path("etc/new/deep"), 0o755))
		pipe(k, "etc/new/deep/b")
		k.want(k.config(second))
		k.settle()
		k.is(one, mcfgv1.NodeDegraded, "/etc/new/deep/b is to be a file, and is a named pipe")
	})

	t.Run("one that appears in between", func(t *testing.T) {
		k := newKit(t, nil)
		pipe(k, "pipe")
		file, err := k.daemon.Root.OpenFile("pipe", os.O_RDONLY|doNotWait, 0)
		if err != nil {
			t.Fatal(err)
		}

		_ = file.Close() // it returned
	})
}

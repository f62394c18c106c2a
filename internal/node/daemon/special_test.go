//go:build unix

package daemon

import (
	"os"
	"syscall"
	"testing"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// A named pipe in place of a file is reported. The daemon never waits for its writer.
func TestNamedPipes(t *testing.T) {
	pipe := func(f *fixture, name string) {
		f.t.Helper()
		_ = os.Remove(f.path(name)) // The file may not exist.
		f.must(syscall.Mkfifo(f.path(name), 0o644))
	}
	for name, c := range map[string]struct{ at, reason string }{
		"a file of the configuration": {"etc/shared", `"/etc/shared" is not a regular file, but a named pipe`},
		"the daemon's own":            {currentFile, "/etc/machine-config-daemon/currentconfig is not a regular file, but a named pipe"},
		"the users":                   {"etc/passwd", "/etc/passwd is not a regular file, but a named pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			f := started(t)
			one := f.config(first)
			f.update(one)
			pipe(f, c.at)
			f.sync()
			f.expectReport(one, mcfgv1.NodeDegraded, c.reason)
		})
	}

	t.Run("a path of the next configuration", func(t *testing.T) {
		f := started(t)
		one := f.config(first)
		f.update(one)
		f.must(os.MkdirAll(f.path("etc/new/deep"), 0o755))
		pipe(f, "etc/new/deep/b")
		f.setDesiredConfig(f.config(second))
		f.settle()
		f.expectReport(one, mcfgv1.NodeDegraded, "/etc/new/deep/b must be a file, but is a named pipe")
	})

	t.Run("one that appears in between", func(t *testing.T) {
		f := newFixture(t, nil)
		pipe(f, "pipe")
		file, err := f.daemon.Root.OpenFile("pipe", os.O_RDONLY|doNotWait, 0)
		if err != nil {
			t.Fatal(err)
		}

		_ = file.Close() // The daemon has returned without a writer.
	})
}

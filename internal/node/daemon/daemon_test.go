package daemon

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// first and second are two configurations that differ in everything that can be changed on a node.
const (
	first = `"storage":{"files":[{"path":"/etc/app/a","mode":384,"contents":{"source":"data:,one"}},{"path":"/etc/shared","contents":{"source":"data:,first"}},{"path":"/etc/link","contents":{"source":"data:,x"}}]},
		"systemd":{"units":[{"name":"app.service","enabled":true,"contents":"[Unit]","dropins":[{"name":"10-a.conf","contents":"a"}]},{"name":"noise.service","mask":true},{"name":"other.service","enabled":false}]},
		"passwd":{"users":[{"name":"core","sshAuthorizedKeys":[" ssh-rsa ONE ","ssh-rsa TWO"]}]}`
	second = `"storage":{"files":[{"path":"/etc/app/a","contents":{"source":"data:,two"}},{"path":"/etc/new/deep/b","contents":{"source":"data:,b"}}]},
		"systemd":{"units":[{"name":"more.service","enabled":true,"contents":"[Service]"}]}`
)

// machineFiles are the files of the machine before the daemon runs.
var machineFiles = map[string]string{
	"etc/passwd":  "root:x:0:0:root:/root:/bin/bash\nbroken\ncore:x:1000:1001:Core:/home/core:/bin/bash\n",
	"etc/shared":  "original",
	"etc/foreign": "foreign",
}

func started(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, machineFiles)
	f.must(os.Symlink("../usr/link", f.path("etc/link")))
	return f
}

func TestUpdate(t *testing.T) {
	f := started(t)
	before := f.files()
	f.sync()
	f.expectReport("", mcfgv1.NodeDone, "")
	one, two := f.config(first), f.config(second)
	f.setDesiredConfig(one)
	f.sync()
	f.expectReport("", mcfgv1.NodeWorking, "")
	if a := f.node().Annotations; a[mcfgv1.AnnotationDesiredDrain] != "drain-"+one || len(f.host.commands) > 0 {
		t.Fatalf("before the drain: got annotations %v and commands %v, want a requested drain and none", a, f.host.commands)
	}
	if after := f.sync(); after != drainRetryInterval || cmp.Diff(before, f.files()) != "" {
		t.Errorf("got a change of the node before its pods are evicted, want none")
	}

	f.drains()
	f.sync() // applies the change and requests the reboot
	f.expectReport("", mcfgv1.NodeRebooting, "")
	f.sync()
	f.expectReport(one, mcfgv1.NodeDone, "")
	if got := f.node().Annotations[mcfgv1.AnnotationDesiredDrain]; got != "uncordon-"+one {
		t.Errorf("after the update: got desired drain %q, want %q", got, "uncordon-"+one)
	}

	want := map[string]string{
		"/etc/passwd": before["/etc/passwd"], "/etc/foreign": "644 foreign", "/etc/shared": "644 first", "/etc/app/a": "600 one", "/etc/link": "644 x",
		"/etc/systemd/system/app.service": "644 [Unit]", "/etc/systemd/system/app.service.d/10-a.conf": "644 a",
		"/etc/systemd/system/noise.service": "-> /dev/null", "/home/core/.ssh/authorized_keys.d/ignition": "600 ssh-rsa ONE\nssh-rsa TWO\n",
	}
	if diff := cmp.Diff(want, f.files()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	f.settle()
	f.host.commands = nil
	f.update(two)
	want = map[string]string{
		"/etc/passwd": before["/etc/passwd"], "/etc/foreign": "644 foreign", "/etc/shared": "644 original", "/etc/app/a": "644 two", "/etc/link": "-> ../usr/link",
		"/etc/new/deep/b": "644 b", "/etc/systemd/system/more.service": "644 [Service]",
	}
	if diff := cmp.Diff(want, f.files()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	commands := []string{"systemctl disable app.service", "systemctl daemon-reload", "systemctl enable more.service", "systemctl reboot"}
	if diff := cmp.Diff(commands, f.host.commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}

	f.update(f.config(""))
	if diff := cmp.Diff(before, f.files()); diff != "" {
		t.Errorf("files after the configuration is emptied (-want +got):\n%s", diff)
	}
}

func TestSystem(t *testing.T) {
	f := started(t)
	f.update(f.config("", func(s *mcfgv1.MachineConfigSpec) {
		s.OSImageURL, s.KernelArguments, s.Extensions = "r/os@sha256:00", []string{"a=1", "b"}, []string{"usbguard"}
	}))
	f.update(f.config("", func(s *mcfgv1.MachineConfigSpec) {
		s.OSImageURL, s.KernelArguments = "r/os@sha256:01", []string{"a=2", "b"}
	}))
	want := []string{
		"rpm-ostree rebase --experimental ostree-unverified-registry:r/os@sha256:00", "rpm-ostree kargs --append-if-missing=a=1 --append-if-missing=b",
		"rpm-ostree install --idempotent usbguard", "systemctl reboot",
		"rpm-ostree rebase --experimental ostree-unverified-registry:r/os@sha256:01", "rpm-ostree kargs --delete-if-present=a=1 --append-if-missing=a=2",
		"rpm-ostree uninstall --idempotent usbguard", "systemctl reboot",
	}
	if diff := cmp.Diff(want, f.host.commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestSingleNode(t *testing.T) {
	f := started(t)
	f.annotate(mcfgv1.AnnotationTopology, mcfgv1.TopologySingleReplica)
	name := f.config(second)
	f.setDesiredConfig(name)
	f.sync()
	f.sync()
	f.expectReport(name, mcfgv1.NodeDone, "")
	if desired := f.node().Annotations[mcfgv1.AnnotationDesiredDrain]; desired != "" {
		t.Errorf("got desired drain %q of the only node, want none", desired)
	}
}

func TestDrift(t *testing.T) {
	f := started(t)
	one := f.config(first)
	f.update(one)
	cases := map[string]struct {
		change, undo func()
		reason       string
	}{
		"content":  {func() { f.write("etc/shared", "furst") }, func() { f.write("etc/shared", "first") }, `content mismatch for file "/etc/shared"`},
		"size":     {func() { f.write("etc/shared", "more than first") }, func() { f.write("etc/shared", "first") }, "content mismatch"},
		"mode":     {func() { f.must(os.Chmod(f.path("etc/shared"), 0o666)) }, func() { f.must(os.Chmod(f.path("etc/shared"), 0o644)) }, "mode mismatch for file: \"/etc/shared\"; expected: -rw-r--r--; received: -rw-rw-rw-"},
		"removed":  {func() { f.remove("etc/shared") }, func() { f.write("etc/shared", "first") }, "does not exist"},
		"a folder": {func() { f.remove("etc/shared"); f.must(os.Mkdir(f.path("etc/shared"), 0o755)) }, func() { f.remove("etc/shared"); f.write("etc/shared", "first") }, "not a regular file"},
		"a mask": {func() { f.remove("etc/systemd/system/noise.service") },
			func() { f.must(os.Symlink("/dev/null", f.path("etc/systemd/system/noise.service"))) }, "does not exist"},
	}

	two := f.config(second)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.change()
			if after := f.sync(); after != driftResyncInterval {
				t.Errorf("got the next check after %s, want %s", after, driftResyncInterval)
			}

			f.expectReport(one, mcfgv1.NodeDegraded, "unexpected on-disk state validating against "+one+": ")
			f.expectReport(one, mcfgv1.NodeDegraded, c.reason)
			// No update begins from an unknown state.
			f.setDesiredConfig(two)
			f.settle()
			f.expectReport(one, mcfgv1.NodeDegraded, c.reason)
			f.setDesiredConfig(one)
			c.undo()
			f.sync()
			f.expectReport(one, mcfgv1.NodeDone, "")
		})
	}
}

func TestForce(t *testing.T) {
	f := started(t)
	one, two := f.config(first), f.config(second)
	f.update(one)
	f.write("etc/shared", "drifted")
	f.write("run/machine-config-daemon-force", "")
	f.sync()
	f.expectReport(one, mcfgv1.NodeDone, "")
	if got := f.files()["/etc/shared"]; got != "644 first" {
		t.Errorf("got file %q after the forced update, want 644 first", got)
	}

	f.write("etc/app/a", "drifted")
	f.write("run/machine-config-daemon-force", "")
	f.setDesiredConfig(two)
	// The force file applies to the update, not to the comparison before it.
	for range 4 {
		f.sync()
		f.drains()
	}

	f.expectReport(two, mcfgv1.NodeDone, "")
	if _, err := os.Lstat(f.path("run/machine-config-daemon-force")); err == nil {
		t.Error("the force file still exists, want it to apply once")
	}
}

func TestImpossible(t *testing.T) {
	f := started(t)
	one := f.config(first)
	f.update(one)
	f.host.commands = nil
	f.setDesiredConfig(f.config(first + `,"kernelArguments":{"shouldExist":["a"]}`))
	f.settle()
	f.expectReport(one, mcfgv1.NodeUnreconcilable, "Ignition kernelArguments section contains changes")
	if desired := f.node().Annotations[mcfgv1.AnnotationDesiredDrain]; desired != "uncordon-"+one || len(f.host.commands) > 0 {
		t.Errorf("got desired drain %q and commands %v, want %q and none", desired, f.host.commands, "uncordon-"+one)
	}

	f.update(one)
}

func TestRefused(t *testing.T) {
	f := started(t)
	one := f.config(first)
	f.update(one)
	changed := &mcfgv1.MachineConfig{}
	changed.Name, changed.Spec.KernelArguments = "rendered-worker-00", []string{"init=/bin/sh"}
	f.must(f.client.Create(t.Context(), changed))
	for name, reason := range map[string]string{
		"rendered-worker-00": "changed since it was rendered", "rendered-worker-01": "reading MachineConfig",
		f.config(`"passwd":{"users":[{"name":"nobody","sshAuthorizedKeys":["a"]}]}`): `no user "nobody"`,
		f.config(`"storage":{"files":[{"path":"/a","group":{"name":"wheel"}}]}`):     `no group "wheel"`,
	} {
		f.setDesiredConfig(name)
		f.settle()
		f.expectReport(one, mcfgv1.NodeDegraded, reason)
	}

	f.update(one)
}

// A failed update is rolled back and retried later.
func TestRollback(t *testing.T) {
	cases := map[string]struct {
		fails, reason string
		prepare       func(*fixture)
	}{
		"a command":      {fails: "systemctl enable more", reason: "exit status 1"},
		"no systemctl":   {fails: "systemctl", reason: "exit status 1"},
		"a reload":       {fails: "systemctl daemon-reload", reason: "exit status 1"},
		"the system":     {fails: "rpm-ostree", reason: "rpm-ostree kargs"},
		"a folder there": {prepare: func(f *fixture) { f.must(os.MkdirAll(f.path("etc/new/deep/b"), 0o755)) }, reason: "must be a file, but is a folder"},
		"a file there":   {prepare: func(f *fixture) { f.write("etc/new", "x") }, reason: "not a directory"},
		"a way out": {prepare: func(f *fixture) {
			f.must(os.Symlink(f.t.TempDir(), f.path("etc/new")))
		}, reason: "escapes"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := started(t)
			one := f.config(first)
			f.update(one)
			if c.prepare != nil {
				c.prepare(f)
			}

			two := f.config(second, func(s *mcfgv1.MachineConfigSpec) { s.KernelArguments = []string{"quiet"} })
			before := f.files()
			f.host.fails = c.fails
			f.setDesiredConfig(two)
			f.settle()
			f.expectReport(one, mcfgv1.NodeDegraded, c.reason)
			if diff := cmp.Diff(before, f.files()); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
			if _, err := os.Lstat(f.path(journalFile)); err == nil {
				t.Error("the journal still exists, want it removed")
			}

			// Nothing is retried before the retry interval has passed.
			f.host.commands, f.host.fails = nil, ""
			f.settle()
			if len(f.host.commands) > 0 {
				t.Errorf("got commands %v before the retry interval has passed, want none", f.host.commands)
			}
			if c.prepare != nil {
				return
			}

			f.clock.SetTime(f.clock.Now().Add(updateRetryInterval))
			f.update(two)
		})
	}
}

func TestDrainTakesTooLong(t *testing.T) {
	f := started(t)
	name := f.config(second)
	f.setDesiredConfig(name)
	f.sync()
	f.clock.SetTime(f.clock.Now().Add(drainTimeout - time.Second))
	f.sync()
	f.expectReport("", mcfgv1.NodeWorking, "")
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.sync()
	f.expectReport("", mcfgv1.NodeDegraded, "failed to drain node: n after 1 hour. The machine-config-controller does not say what keeps its pods: check that it runs")
	// The update continues when the pods are gone.
	f.settle()
	f.expectReport(name, mcfgv1.NodeDone, "")
}

// While the controller reports what blocks the drain, the daemon keeps that report, also after a restart. It removes the report
// when the drain is done.
func TestDrainIsExplained(t *testing.T) {
	const blocker = "Draining since noon: pod a/b cannot be evicted"
	f := started(t)
	f.annotate(mcfgv1.AnnotationReason, "of before")
	name := f.config(second)
	f.setDesiredConfig(name)
	f.sync()
	f.expectReport("", mcfgv1.NodeWorking, "")
	f.annotate(mcfgv1.AnnotationReason, blocker)
	f.annotate(mcfgv1.AnnotationDrainStarted, pools.FormatDrainStarted(f.clock.Now(), mcfgv1.DrainPrefix+name))
	f.clock.SetTime(f.clock.Now().Add(drainTimeout - time.Second))
	f.sync()
	f.expectReport("", mcfgv1.NodeWorking, blocker)
	f.restart(nil)
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.sync()
	f.expectReport("", mcfgv1.NodeDegraded, blocker)
	f.settle()
	f.expectReport(name, mcfgv1.NodeDone, "")
}

// A configuration can write files into the folder of the daemon, such as the documented key of images. They are removed again.
func TestFilesInTheFolderOfTheDaemon(t *testing.T) {
	const key = config.Home + "/no-reboot/containers-gpg.pub"
	f := started(t)
	f.update(f.config(`"storage":{"files":[{"path":"` + key + `","contents":{"source":"data:,key"}}]}`))
	if got, err := os.ReadFile(f.path(key)); err != nil || string(got) != "key" {
		t.Errorf("got %q (error %v) in %s, want %q", got, err, key, "key")
	}

	f.update(f.config(second))
	if _, err := os.Lstat(f.path(key)); !os.IsNotExist(err) {
		t.Errorf("%s after it was removed from the configuration: got error %v, want that it does not exist", key, err)
	}
}

func TestStuckReboot(t *testing.T) {
	f := started(t)
	name := f.config(second)
	f.host.stuck = true
	f.setDesiredConfig(name)
	f.settle()
	f.expectReport("", mcfgv1.NodeRebooting, "")
	f.host.stuck = false
	f.restart(nil)
	f.settle()
	f.expectReport(name, mcfgv1.NodeDone, "")
}

// A node whose files differ from its configuration after the reboot does not finish its update, until the difference is reverted
// or another configuration is desired.
func TestDriftAfterReboot(t *testing.T) {
	f := started(t)
	one, two := f.config(first), f.config(second)
	f.host.stuck = true
	f.setDesiredConfig(one)
	f.settle()
	f.write("etc/shared", "late")
	f.host.stuck = false
	f.sync()
	f.sync()
	f.expectReport("", mcfgv1.NodeDegraded, "content mismatch")
	f.setDesiredConfig(two)
	f.settle()
	f.settle()
	f.expectReport(two, mcfgv1.NodeDone, "")
	if got := f.files()["/etc/shared"]; got != "644 original" {
		t.Errorf("got file %q, want 644 original", got)
	}
}

// killed is the panic that simulates the end of the program.
type killed struct{}

// updateUntilKilled starts an update to a configuration and kills the program before its n-th change, counted from 0. It returns
// the change, or an empty text if the update ended before.
func (f *fixture) updateUntilKilled(configuration string, n int) (at string) {
	f.t.Helper()
	count := 0
	f.restart(func(change string) {
		if count == n {
			at = change
			panic(killed{})
		}
		count++
	})

	f.setDesiredConfig(configuration)
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
		}
	}()
	f.settle()
	return at
}

// Wherever the program is killed during an update, the next one reaches the same result.
func TestKilledAnywhere(t *testing.T) {
	want := func() map[string]string {
		f := started(t)
		f.update(f.config(first))
		f.update(f.config(second))
		return f.files()
	}()

	points := 0
	for n := 0; ; n++ {
		f := started(t)
		f.update(f.config(first))
		two := f.config(second)
		at := f.updateUntilKilled(two, n)
		if at == "" {
			break
		}

		points++
		f.restart(nil)
		f.settle()
		f.settle()
		f.expectReport(two, mcfgv1.NodeDone, "")
		if diff := cmp.Diff(want, f.files()); diff != "" {
			t.Errorf("killed before %q (%d): files (-want +got):\n%s", at, n, diff)
		}
		if t.Failed() {
			break
		}
	}

	if points < 50 {
		t.Errorf("got %d points at which the program was killed, want at least 50", points)
	}
}

// Wherever the program is killed during an update that fails, the node has its previous configuration in the end. The test kills
// the program before every third change.
func TestKilledDuringRollback(t *testing.T) {
	for n := 0; ; n += 3 {
		f := started(t)
		one := f.config(first)
		f.update(one)
		want := f.files()
		two := f.config(second)
		f.host.fails = "systemctl enable more"
		at := f.updateUntilKilled(two, n)
		if at == "" {
			return
		}

		f.restart(nil)
		f.settle()
		f.expectReport(one, mcfgv1.NodeDegraded, "exit status 1")
		if diff := cmp.Diff(want, f.files()); diff != "" {
			t.Fatalf("killed before %q (%d): files (-want +got):\n%s", at, n, diff)
		}
	}
}

func TestModes(t *testing.T) {
	for mode, want := range map[int]string{0o644: "-rw-r--r--", 0o4755: "urwxr-xr-x", 0o2070: "g---rwx---", 0o1777: "trwxrwxrwx"} {
		if got := modeOf(mode).String(); got != want {
			t.Errorf("%o is %s, want %s", mode, got, want)
		}
	}
}

// Only root can read the files of the daemon.
func TestOwnFiles(t *testing.T) {
	f := started(t)
	f.update(f.config(first))
	var wrong []string
	entries, err := os.ReadDir(f.path(originalsFolder))
	f.must(err)
	for _, e := range entries {
		info, err := e.Info()
		f.must(err)
		if info.Mode().Perm() != 0o600 {
			wrong = append(wrong, fmt.Sprint(e.Name(), info.Mode()))
		}
	}

	if len(entries) != 7 || len(wrong) > 0 {
		t.Errorf("got %d records, of which other users can read %v; want 7 and none", len(entries), wrong)
	}
}

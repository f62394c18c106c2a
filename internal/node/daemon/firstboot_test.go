package daemon

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
)

// boot applies a configuration as machine-config-server serves it, as Ignition does at the first boot of a machine.
func (f *fixture) boot(name string) {
	f.t.Helper()
	var rendered mcfgv1.MachineConfig
	f.must(f.client.Get(f.t.Context(), client.ObjectKey{Name: name}, &rendered))
	data, err := config.FirstBoot(&rendered, config.UnknownVersion, nil)
	f.must(err)
	var c config.Ignition
	f.must(json.Unmarshal(data, &c))
	entries, err := c.Entries()
	f.must(err)
	for _, e := range entries {
		if e.Link != "" {
			continue
		}
		f.write(e.Path, string(e.Content))
		f.must(os.Chmod(f.path(e.Path), modeOf(e.Mode)))
	}
}

// A machine that has applied its configuration at the first boot needs no drain and no reboot.
func TestFirstBoot(t *testing.T) {
	f := newFixture(t, map[string]string{"etc/foreign": "foreign"})
	one := f.config(second)
	f.boot(one)
	before := f.files()
	f.update(one)
	if diff := cmp.Diff(before, f.files()); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"systemctl daemon-reload", "systemctl enable more.service"}, f.host.commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if desired := f.node().Annotations[mcfgv1.AnnotationDesiredDrain]; desired != "" {
		t.Errorf("got desired drain %q, want none", desired)
	}

	// The files of the first boot are removed with the configuration.
	f.update(f.config(""))
	if diff := cmp.Diff(map[string]string{"/etc/foreign": "644 foreign"}, f.files()); diff != "" {
		t.Errorf("files after the configuration is emptied (-want +got):\n%s", diff)
	}
}

// The daemon applies what Ignition does not, and corrects what differs.
func TestFirstBootIsCompleted(t *testing.T) {
	f := newFixture(t, nil)
	one := f.config(second, func(s *mcfgv1.MachineConfigSpec) { s.KernelArguments, s.FIPS = []string{"quiet"}, true })
	f.boot(one)
	f.write("etc/app/a", "changed since")
	f.update(one)
	want := []string{"systemctl daemon-reload", "systemctl enable more.service", "rpm-ostree kargs --append-if-missing=quiet", "systemctl reboot"}
	if diff := cmp.Diff(want, f.host.commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if got := f.files()["/etc/app/a"]; got != "644 two" {
		t.Errorf("got file %q, want 644 two", got)
	}
}

// The daemon accepts only a configuration that exists in the cluster.
func TestFirstBootUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		annotations string
		state       mcfgv1.NodeState
		reason      string
		reboots     int
	}{
		"none":         {"{}", mcfgv1.NodeDone, "", 1},
		"one deleted":  {`{"machineconfiguration.openshift.io/currentConfig":"rendered-worker-00"}`, mcfgv1.NodeDone, "", 1},
		"one changed":  {`{"machineconfiguration.openshift.io/currentConfig":"rendered-worker-01"}`, mcfgv1.NodeDegraded, "changed since it was rendered", 0},
		"unreadable":   {`[`, mcfgv1.NodeDegraded, "node-annotations.json", 0},
		"far too long": {string(make([]byte, maxAnnotationsSize+1)), mcfgv1.NodeDegraded, "more than", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			changed := &mcfgv1.MachineConfig{}
			changed.Name, changed.Spec.KernelArguments = "rendered-worker-01", []string{"init=/bin/sh"}
			f.must(f.client.Create(t.Context(), changed))
			f.write(config.AnnotationsFile, c.annotations)
			two := f.config(second)
			f.setDesiredConfig(two)
			f.settle()
			current := two
			if c.state != mcfgv1.NodeDone {
				current = ""
			}

			f.expectReport(current, c.state, c.reason)
			if f.host.boots != c.reboots {
				t.Errorf("got %d reboots, want %d", f.host.boots, c.reboots)
			}
		})
	}
}

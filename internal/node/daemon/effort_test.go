package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	operatorv1 "github.com/mainstay-dev/mainstay/api/operator/v1"
)

// A change that requires no reboot causes none, and one that requires no drain requests none.
func TestGentle(t *testing.T) {
	f := started(t)
	f.update(f.config(""))
	f.host.commands = nil
	for _, c := range []struct {
		parts    string
		commands []string
		drains   bool
	}{
		{parts: `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["a"]}]}`},
		{parts: `"storage":{"files":[{"path":"/etc/containers/policy.json"}]}`, commands: []string{"systemctl reload crio.service"}},
		{parts: `"storage":{"files":[{"path":"/etc/containers/policy.json"},{"path":"/etc/containers/registries.conf"}]}`, commands: []string{"systemctl reload crio.service"}, drains: true},
	} {
		f.host.commands = nil
		f.annotate(mcfgv1.AnnotationDesiredDrain, "", mcfgv1.AnnotationLastAppliedDrain, "")
		f.update(f.config(c.parts))
		if diff := cmp.Diff(c.commands, f.host.commands); diff != "" {
			t.Errorf("%s: commands (-want +got):\n%s", c.parts, diff)
		}
		if requested := f.node().Annotations[mcfgv1.AnnotationDesiredDrain] != ""; requested != c.drains {
			t.Errorf("%s: got drain requested %v, want %v", c.parts, requested, c.drains)
		}
	}
}

// The policy of the cluster at the start of the update decides what a change requires.
func TestPolicyOfTheCluster(t *testing.T) {
	f := started(t)
	f.update(f.config(first))
	policy := &operatorv1.MachineConfiguration{}
	policy.Name = operatorv1.MachineConfigurationName
	restart := &operatorv1.NodeDisruptionPolicyService{ServiceName: "app.service"}
	policy.Spec.NodeDisruptionPolicy.Files = []operatorv1.NodeDisruptionPolicyFile{
		{Path: "/etc/app", Actions: operatorv1.NodeDisruptionPolicyActions{{Type: "Drain"}, {Type: "Restart", Restart: restart}}},
	}
	f.must(f.client.Create(t.Context(), policy))
	f.host.commands = nil
	two := f.config(strings.Replace(first, "data:,one", "data:,two", 1))
	f.setDesiredConfig(two)
	f.sync()
	if desired := f.node().Annotations[mcfgv1.AnnotationDesiredDrain]; desired != "drain-"+two {
		t.Errorf("before the change: got desired drain %q, want %q", desired, "drain-"+two)
	}

	f.update(two)
	if got := f.host.commands[len(f.host.commands)-1]; got != "systemctl restart app.service" || slices.Contains(f.host.commands, "systemctl reboot") {
		t.Errorf("got commands %v, want a restart of app.service and no reboot", f.host.commands)
	}

	// The change is rolled back after a failed restart.
	f.host.fails = "systemctl restart app.service"
	f.setDesiredConfig(f.config(strings.Replace(first, "data:,one", "data:,three", 1)))
	f.settle()
	f.expectReport(two, mcfgv1.NodeDegraded, "running systemctl restart app.service")
	if got := f.files()["/etc/app/a"]; got != "600 two" {
		t.Errorf("got file %q, want 600 two", got)
	}
}

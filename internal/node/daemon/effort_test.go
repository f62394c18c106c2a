package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	operatorv1 "github.com/mainstay-dev/mainstay/api/operator/v1"
)

// A change that needs no reboot causes none, and one that needs no drain asks for none.
func TestGentle(t *testing.T) {
	k := started(t)
	k.update(k.config(""))
	k.host.commands = nil
	for _, c := range []struct {
		parts    string
		commands []string
		drains   bool
	}{
		{parts: `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["a"]}]}`},
		{parts: `"storage":{"files":[{"path":"/etc/containers/policy.json"}]}`, commands: []string{"systemctl reload crio.service"}},
		{parts: `"storage":{"files":[{"path":"/etc/containers/policy.json"},{"path":"/etc/containers/registries.conf"}]}`, commands: []string{"systemctl reload crio.service"}, drains: true},
	} {
		k.host.commands = nil
		k.annotate(mcfgv1.AnnotationDesiredDrain, "", mcfgv1.AnnotationLastAppliedDrain, "")
		k.update(k.config(c.parts))
		if diff := cmp.Diff(c.commands, k.host.commands); diff != "" {
			t.Errorf("%s: commands (-want +got):\n%s", c.parts, diff)
		}
		if asked := k.node().Annotations[mcfgv1.AnnotationDesiredDrain] != ""; asked != c.drains {
			t.Errorf("%s: a drain was asked for: %v", c.parts, asked)
		}
	}
}

// What a change asks for is what the cluster says when the update begins.
func TestPolicyOfTheCluster(t *testing.T) {
	k := started(t)
	k.update(k.config(first))
	said := &operatorv1.MachineConfiguration{}
	said.Name = operatorv1.MachineConfigurationName
	restart := &operatorv1.NodeDisruptionPolicyService{ServiceName: "app.service"}
	said.Spec.NodeDisruptionPolicy.Files = []operatorv1.NodeDisruptionPolicyFile{
		{Path: "/etc/app", Actions: operatorv1.NodeDisruptionPolicyActions{{Type: "Drain"}, {Type: "Restart", Restart: restart}}},
	}
	k.must(k.client.Create(t.Context(), said))
	k.host.commands = nil
	two := k.config(strings.Replace(first, "data:,one", "data:,two", 1))
	k.want(two)
	k.sync()
	if asked := k.node().Annotations[mcfgv1.AnnotationDesiredDrain]; asked != "drain-"+two {
		t.Errorf("%q is asked for before the change", asked)
	}

	k.update(two)
	if got := k.host.commands[len(k.host.commands)-1]; got != "systemctl restart app.service" || slices.Contains(k.host.commands, "systemctl reboot") {
		t.Errorf("commands are %v", k.host.commands)
	}

	// A restart that fails has the change taken back.
	k.host.fails = "systemctl restart app.service"
	k.want(k.config(strings.Replace(first, "data:,one", "data:,three", 1)))
	k.settle()
	k.is(two, mcfgv1.NodeDegraded, "running systemctl restart app.service")
	if got := k.files()["/etc/app/a"]; got != "600 two" {
		t.Errorf("the file is %q", got)
	}
}

package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	operatorv1 "github.com/mainstay-dev/mainstay/api/operator/v1"
)

func act(actionType string, unit ...string) operatorv1.NodeDisruptionPolicyAction {
	a := operatorv1.NodeDisruptionPolicyAction{Type: actionType}
	for _, name := range unit {
		service := &operatorv1.NodeDisruptionPolicyService{ServiceName: name}
		if actionType == operatorv1.ActionReload {
			a.Reload = service
		} else {
			a.Restart = service
		}
	}

	return a
}

// The policy of a cluster takes precedence over the defaults. All other changes require a reboot.
func TestPolicy(t *testing.T) {
	full := Effort{Drain: true, Reboot: true}
	policy := NewPolicy("containerd.service", &operatorv1.NodeDisruptionPolicy{
		Files: []operatorv1.NodeDisruptionPolicyFile{
			{Path: "/etc/app", Actions: actions{act("Restart", "app.service")}},
			{Path: "/etc/app/quiet/", Actions: actions{act("None")}},
			{Path: "/etc/app/quiet/loud", Actions: actions{act("Drain"), act("Restart", "app.service"), act("Reload", "b.service"), act("DaemonReload")}},
			{Path: "/etc/containers/policy.json", Actions: actions{act("Reboot")}},
			{Path: "/etc/special", Actions: actions{act("Special")}},
			{Path: "/etc/option", Actions: actions{act("Restart", "-H.service")}},
			{Path: "/etc/words", Actions: actions{act("Reload", "a b.service")}},
			{Path: "/etc/nothing", Actions: nil},
			{Path: "/etc/unnamed", Actions: actions{act("Reload")}},
		},
		Units:  []operatorv1.NodeDisruptionPolicyUnit{{Name: "a.service", Actions: actions{act("DaemonReload"), act("Reload", "a.service")}}},
		SSHKey: &operatorv1.NodeDisruptionPolicySSHKey{Actions: actions{act("Restart", "sshd.service")}},
	})

	cases := map[string]struct {
		change Change
		want   Effort
	}{
		"nothing":                     {Change{}, Effort{}},
		"a file in a folder":          {Change{Files: []string{"/etc/app/deep/a"}}, Effort{Commands: []string{"restart app.service"}}},
		"the folder's own path":       {Change{Files: []string{"/etc/app"}}, Effort{Commands: []string{"restart app.service"}}},
		"a name that begins like it":  {Change{Files: []string{"/etc/apple"}}, full},
		"the closest folder":          {Change{Files: []string{"/etc/app/quiet/a"}}, Effort{}},
		"the file itself":             {Change{Files: []string{"/etc/app/quiet/loud"}}, Effort{Drain: true, Commands: []string{"daemon-reload", "restart app.service", "reload b.service"}}},
		"each command once":           {Change{Files: []string{"/etc/app/a", "/etc/app/b"}}, Effort{Commands: []string{"restart app.service"}}},
		"a default that is overruled": {Change{Files: []string{"/etc/containers/policy.json"}}, full},
		"a default that is not":       {Change{Files: []string{"/etc/containers/registries.d/a.yaml"}}, Effort{Commands: []string{"reload containerd.service"}}},
		"one that needs a reboot":     {Change{Files: []string{"/etc/app/a", "/etc/other"}}, full},
		"a unit":                      {Change{Units: []string{"a.service"}}, Effort{Commands: []string{"daemon-reload", "reload a.service"}}},
		"another unit":                {Change{Units: []string{"a.service", "b.service"}}, full},
		"keys":                        {Change{Keys: []string{"core"}}, Effort{Commands: []string{"restart sshd.service"}}},
		"the system":                  {Change{OS: true, Files: []string{"/etc/app/quiet/a"}}, full},
		"arguments of the kernel":     {Change{KernelArguments: true}, full},
		"an unknown action":           {Change{Files: []string{"/etc/special"}}, full},
		"an option for a unit":        {Change{Files: []string{"/etc/option"}}, full},
		"two words for a unit":        {Change{Files: []string{"/etc/words"}}, full},
		"no action at all":            {Change{Files: []string{"/etc/nothing"}}, full},
		"no unit":                     {Change{Files: []string{"/etc/unnamed"}}, full},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, policy.Effort(&c.change)); diff != "" {
				t.Errorf("effort (-want +got):\n%s", diff)
			}
		})
	}
}

// The defaults are those of existing platforms.
func TestDefaultPolicy(t *testing.T) {
	policy := NewPolicy("crio.service", nil)
	for file, want := range map[string]Effort{
		"/etc/mco/internal-registry-pull-secret.json": {}, "/etc/nmstate/openshift/a.yml": {}, "/etc/containers/registries.conf": {Drain: true, Commands: []string{"reload crio.service"}},
		"/etc/machine-config-daemon/no-reboot/containers-gpg.pub": {Commands: []string{"reload crio.service"}}, "/etc/machine-config-daemon/no-reboot/other": {Drain: true, Reboot: true},
		"/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt": {Commands: []string{"restart coreos-update-ca-trust.service", "restart crio.service"}},
	} {
		if diff := cmp.Diff(want, policy.Effort(&Change{Files: []string{file}})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

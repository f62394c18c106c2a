package config

import (
	"cmp"
	"path"
	"slices"
	"strings"

	operatorv1 "github.com/mainstay-dev/mainstay/api/operator/v1"
)

// Effort is what a change asks of a node.
type Effort struct {
	// Drain: the pods of the node are moved away before.
	Drain bool `json:"drain,omitempty"`
	// Reboot: the node starts again. It implies Drain.
	Reboot bool `json:"reboot,omitempty"`
	// Commands are what systemctl is run with after the change, in this order: daemon-reload, or
	// reload or restart and a unit. A reboot makes them needless.
	Commands []string `json:"commands,omitempty"`
}

// actions are what a change of one thing asks for.
type actions = operatorv1.NodeDisruptionPolicyActions

// Policy says what changes of files, units and SSH keys ask of a node. What it does not know asks for
// a reboot.
type Policy struct {
	files, units map[string]actions
	keys         actions
}

// NewPolicy is what is known by default, and before that what a cluster says, which may be nil.
// runtimeUnit is the systemd unit of the container runtime.
func NewPolicy(runtimeUnit string, cluster *operatorv1.NodeDisruptionPolicy) *Policy {
	none := actions{{Type: operatorv1.ActionNone}}
	unit := &operatorv1.NodeDisruptionPolicyService{ServiceName: runtimeUnit}
	reload := operatorv1.NodeDisruptionPolicyAction{Type: operatorv1.ActionReload, Reload: unit}
	p := &Policy{
		files: map[string]actions{
			// The logins of registries are read at each pull.
			"/var/lib/kubelet/config.json":                none,
			"/etc/mco/internal-registry-pull-secret.json": none,
			"/etc/nmstate/openshift":                      none,
			"/etc/containers/policy.json":                 {reload},
			"/etc/containers/registries.d":                {reload},
			// The keys that policy.json names.
			Home + "/no-reboot/containers-gpg.pub": {reload},
			// Where images are looked for otherwise, pods may get other images.
			"/etc/containers/registries.conf": {{Type: operatorv1.ActionDrain}, reload},
			"/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt": {
				{Type: operatorv1.ActionRestart, Restart: &operatorv1.NodeDisruptionPolicyService{ServiceName: "coreos-update-ca-trust.service"}},
				{Type: operatorv1.ActionRestart, Restart: unit},
			},
		},
		units: map[string]actions{},
		keys:  none,
	}
	if cluster == nil {
		return p
	}

	for _, f := range cluster.Files {
		p.files[path.Clean(f.Path)] = f.Actions
	}

	for _, u := range cluster.Units {
		p.units[u.Name] = u.Actions
	}

	if cluster.SSHKey != nil {
		p.keys = cluster.SSHKey.Actions
	}

	return p
}

// Effort returns what a change asks of a node: a reboot, unless all that differs is known to need
// less.
func (p *Policy) Effort(c *Change) Effort {
	full := Effort{Drain: true, Reboot: true}
	if c.OS || c.KernelArguments || c.Extensions {
		return full
	}

	var asked []actions
	for _, file := range c.Files {
		asked = append(asked, p.ofFile(file))
	}

	for _, unit := range c.Units {
		asked = append(asked, p.units[unit])
	}

	if len(c.Keys) > 0 {
		asked = append(asked, p.keys)
	}

	var effort Effort
	for _, list := range asked {
		if !effort.addActions(list) {
			return full
		}
	}

	// What is reloaded or restarted after it is so with its new file.
	slices.SortStableFunc(effort.Commands, func(a, b string) int { return cmp.Compare(commandRank(a), commandRank(b)) })
	return effort
}

// ofFile returns what is said of a file, or of the nearest folder above it.
func (p *Policy) ofFile(file string) actions {
	for at := file; at != "/" && at != "."; at = path.Dir(at) {
		if said, ok := p.files[at]; ok {
			return said
		}
	}
	return nil
}

const daemonReload = "daemon-reload"

func commandRank(command string) int {
	if command == daemonReload {
		return 0
	}
	return 1
}

// addActions adds the actions for one change. It returns false when the node has to reboot, also for unknown actions and
// for no action.
func (e *Effort) addActions(list actions) bool {
	for _, a := range list {
		command := ""
		switch {
		case a.Type == operatorv1.ActionNone:
		case a.Type == operatorv1.ActionDrain:
			e.Drain = true
		case a.Type == operatorv1.ActionDaemonReload:
			command = daemonReload
		case a.Type == operatorv1.ActionReload && isUnit(a.Reload):
			command = "reload " + a.Reload.ServiceName
		case a.Type == operatorv1.ActionRestart && isUnit(a.Restart):
			command = "restart " + a.Restart.ServiceName
		default:
			return false
		}
		if command != "" && !slices.Contains(e.Commands, command) {
			e.Commands = append(e.Commands, command)
		}
	}

	return len(list) > 0
}

// isUnit reports whether a unit is named so that it can be an argument of a command.
func isUnit(s *operatorv1.NodeDisruptionPolicyService) bool {
	return s != nil && len(s.ServiceName) <= maxName && unitName.MatchString(s.ServiceName) && !strings.HasPrefix(s.ServiceName, "-")
}

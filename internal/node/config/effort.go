package config

import (
	"cmp"
	"path"
	"slices"
	"strings"

	operatorv1 "github.com/mainstay-dev/mainstay/api/operator/v1"
)

// Effort is what a change requires of a node.
type Effort struct {
	// Drain requires that the node is drained before the change.
	Drain bool `json:"drain,omitempty"`
	// Reboot requires a reboot after the change. It implies Drain.
	Reboot bool `json:"reboot,omitempty"`
	// Commands are the arguments of systemctl after the change, in this order: daemon-reload, or reload or restart with a
	// unit. They are not run if the node reboots.
	Commands []string `json:"commands,omitempty"`
}

// actions are the actions after a change of a file, a unit or the keys.
type actions = operatorv1.NodeDisruptionPolicyActions

// Policy maps changes of files, units and SSH keys to actions. All other changes require a reboot.
type Policy struct {
	files, units map[string]actions
	keys         actions
}

// NewPolicy returns the default policy, overridden by the policy of the cluster, which may be nil. runtimeUnit is the systemd unit
// of the container runtime.
func NewPolicy(runtimeUnit string, cluster *operatorv1.NodeDisruptionPolicy) *Policy {
	none := actions{{Type: operatorv1.ActionNone}}
	unit := &operatorv1.NodeDisruptionPolicyService{ServiceName: runtimeUnit}
	reload := operatorv1.NodeDisruptionPolicyAction{Type: operatorv1.ActionReload, Reload: unit}
	p := &Policy{
		files: map[string]actions{
			// The container runtime reads the logins of registries at each pull.
			"/var/lib/kubelet/config.json":                none,
			"/etc/mco/internal-registry-pull-secret.json": none,
			"/etc/nmstate/openshift":                      none,
			"/etc/containers/policy.json":                 {reload},
			"/etc/containers/registries.d":                {reload},
			// The keys that policy.json names.
			Home + "/no-reboot/containers-gpg.pub": {reload},
			// With other mirrors, pods can get other images.
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

// Effort returns what a change requires of a node: a reboot, unless the policy has other actions for all differences.
func (p *Policy) Effort(c *Change) Effort {
	full := Effort{Drain: true, Reboot: true}
	if c.OS || c.KernelArguments || c.Extensions {
		return full
	}

	var all []actions
	for _, file := range c.Files {
		all = append(all, p.actionsForFile(file))
	}

	for _, unit := range c.Units {
		all = append(all, p.units[unit])
	}

	if len(c.Keys) > 0 {
		all = append(all, p.keys)
	}

	var effort Effort
	for _, list := range all {
		if !effort.addActions(list) {
			return full
		}
	}

	// Units are reloaded and restarted after systemd has read their new files.
	slices.SortStableFunc(effort.Commands, func(a, b string) int { return cmp.Compare(commandRank(a), commandRank(b)) })
	return effort
}

// actionsForFile returns the actions for a file, or for the nearest folder above it.
func (p *Policy) actionsForFile(file string) actions {
	for at := file; at != "/" && at != "."; at = path.Dir(at) {
		if found, ok := p.files[at]; ok {
			return found
		}
	}
	return nil
}

// daemonReload is the argument with which systemctl reads the files of units.
const daemonReload = "daemon-reload"

// commandRank returns the position of a command of systemctl.
func commandRank(command string) int {
	if command == daemonReload {
		return 0
	}
	return 1
}

// addActions adds the actions for one change. It returns false if the node has to reboot. This includes unknown actions and an
// empty list.
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

// isUnit reports whether the name of a unit can be an argument of systemctl.
func isUnit(s *operatorv1.NodeDisruptionPolicyService) bool {
	return s != nil && len(s.ServiceName) <= maxName && unitName.MatchString(s.ServiceName) && !strings.HasPrefix(s.ServiceName, "-")
}

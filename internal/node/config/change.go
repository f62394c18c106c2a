package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// Change is the difference between two configurations.
type Change struct {
	// Files are the paths of files that are written, changed or removed, sorted.
	Files []string
	// Units are the names of units that differ, sorted.
	Units []string
	// Keys are the users whose SSH keys differ, sorted.
	Keys []string
	// OS is true if the image of the operating system differs, or the image of its extensions.
	OS bool
	// KernelArguments and Extensions are true if these lists differ.
	KernelArguments, Extensions bool
}

// ImpossibleError reports why a running node cannot be updated from one configuration to another.
type ImpossibleError struct {
	// Reasons name the parts that cannot be changed.
	Reasons []string
}

// Error implements error.
func (e *ImpossibleError) Error() string {
	return "the change cannot be made on a running node: " + strings.Join(e.Reasons, "; ")
}

// Compare returns the difference between two configurations. from is nil for a node without a configuration; differences in the
// parts for the first boot are ignored then. Compare returns an *ImpossibleError if parts differ that cannot be changed on a
// running node, and other errors if a configuration is invalid.
func Compare(from, to *mcfgv1.MachineConfigSpec) (*Change, error) {
	isFirst := from == nil
	if isFirst {
		from = &mcfgv1.MachineConfigSpec{}
	}

	before, err := Parse(from.Config.Raw)
	if err != nil {
		return nil, fmt.Errorf("the present configuration: %w", err)
	}

	after, err := Parse(to.Config.Raw)
	if err != nil {
		return nil, fmt.Errorf("the wanted configuration: %w", err)
	}

	if !isFirst {
		if reasons := unsupportedChanges(from, to, before, after); len(reasons) > 0 {
			return nil, &ImpossibleError{Reasons: reasons}
		}
	}

	return &Change{
		Files: differingKeys(before.Storage.Files, after.Storage.Files, func(f File) string { return f.Path }),
		Units: differingKeys(before.Systemd.Units, after.Systemd.Units, func(u Unit) string { return u.Name }),
		Keys:  differingKeys(usersWithKeys(before), usersWithKeys(after), func(u User) string { return u.Name }),
		OS: from.OSImageURL != to.OSImageURL ||
			(from.BaseOSExtensionsContainerImage != to.BaseOSExtensionsContainerImage && len(to.Extensions) > 0),
		KernelArguments: !slices.Equal(from.KernelArguments, to.KernelArguments),
		Extensions:      !slices.Equal(slices.Sorted(slices.Values(from.Extensions)), slices.Sorted(slices.Values(to.Extensions))),
	}, nil
}

// unsupportedChanges returns the parts that differ and are only for the first boot of a machine.
func unsupportedChanges(from, to *mcfgv1.MachineConfigSpec, before, after *Ignition) []string {
	var reasons []string
	addReason := func(differs bool, what string) {
		if differs {
			reasons = append(reasons, what)
		}
	}
	parts := func(c *Ignition) map[string]any {
		return map[string]any{
			"ignition.proxy": c.Ignition.Proxy, "ignition.security": c.Ignition.Security, "ignition.timeouts": c.Ignition.Timeouts,
			"kernelArguments": c.KernelArguments, "passwd.groups": c.Passwd.Groups,
			"storage.directories": c.Storage.Directories, "storage.disks": c.Storage.Disks, "storage.filesystems": c.Storage.Filesystems,
			"storage.links": c.Storage.Links, "storage.luks": c.Storage.Luks, "storage.raid": c.Storage.Raid,
		}
	}

	was, is := parts(before), parts(after)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		addReason(!isEqual(was[name], is[name]), "Ignition "+name+" section contains changes")
	}

	for _, name := range differingKeys(usersWithoutKeys(before), usersWithoutKeys(after), func(u User) string { return u.Name }) {
		addReason(true, fmt.Sprintf("Ignition passwd user %q contains changes other than of its SSH keys", name))
	}

	addReason(from.FIPS != to.FIPS, "detected change to FIPS flag; refusing to modify FIPS on a running cluster")
	addReason(kernelType(from) != kernelType(to), fmt.Sprintf("kernelType changes from %s to %s", kernelType(from), kernelType(to)))
	return reasons
}

// isEqual compares two values. An empty list equals an unset one.
func isEqual(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	return (x.Len() == 0 && y.Len() == 0) || reflect.DeepEqual(a, b)
}

// kernelType returns the kernel of a configuration.
func kernelType(s *mcfgv1.MachineConfigSpec) string {
	if s.KernelType == "" {
		return KernelDefault
	}
	return s.KernelType
}

// usersWithKeys returns the users that have keys, with nothing but their keys.
func usersWithKeys(c *Ignition) []User {
	var users []User
	for _, u := range c.Passwd.Users {
		if len(u.SSHAuthorizedKeys) > 0 {
			users = append(users, User{Name: u.Name, SSHAuthorizedKeys: u.SSHAuthorizedKeys})
		}
	}
	return users
}

// usersWithoutKeys returns the users without their keys. It omits users that have nothing else.
func usersWithoutKeys(c *Ignition) []User {
	var users []User
	for _, u := range c.Passwd.Users {
		u.SSHAuthorizedKeys = nil
		if !reflect.DeepEqual(u, User{Name: u.Name}) {
			users = append(users, u)
		}
	}

	return users
}

// differingKeys returns the keys of items that only one list has, or both and not equal, sorted.
func differingKeys[T any](before, after []T, key func(T) string) []string {
	old := make(map[string]T, len(before))
	for _, item := range before {
		old[key(item)] = item
	}

	var names []string
	for _, item := range after {
		if was, ok := old[key(item)]; !ok || !reflect.DeepEqual(was, item) {
			names = append(names, key(item))
		}
		delete(old, key(item))
	}

	return slices.Sorted(slices.Values(slices.AppendSeq(names, maps.Keys(old))))
}

// IsEmpty reports whether there is no difference.
func (c *Change) IsEmpty() bool {
	return len(c.Files) == 0 && len(c.Units) == 0 && len(c.Keys) == 0 && !c.OS && !c.KernelArguments && !c.Extensions
}

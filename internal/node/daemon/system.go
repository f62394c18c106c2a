package daemon

import (
	"context"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
)

// rebootCommand reboots the machine.
var rebootCommand = []string{"systemctl", "reboot"}

// system runs the commands that change units, the operating system and the boot of a machine.
type system struct {
	disk *disk
	host Host
}

func (s *system) run(ctx context.Context, name string, args ...string) error {
	s.disk.beforeChange("run", name)
	return s.host.Run(ctx, name, args...)
}

// reboot reboots the machine.
func (s *system) reboot(ctx context.Context) error {
	return s.run(ctx, rebootCommand[0], rebootCommand[1:]...)
}

// runUnitCommands runs systemctl with each command in turn.
func (s *system) runUnitCommands(ctx context.Context, commands []string) error {
	for _, command := range commands {
		if err := s.run(ctx, "systemctl", strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}

// wantedUnits returns the units that a configuration enables, and those that it disables.
func wantedUnits(c *config.Ignition) (enabled, disabled map[string]bool) {
	enabled, disabled = map[string]bool{}, map[string]bool{}
	for _, u := range c.Systemd.Units {
		switch {
		case u.Enabled == nil:
		case *u.Enabled:
			enabled[u.Name] = true
		default:
			disabled[u.Name] = true
		}
	}

	return enabled, disabled
}

// disableRemovedUnits disables the units that leave the configuration. It runs before their files are removed,
// because systemd does not know them afterwards.
func (s *system) disableRemovedUnits(ctx context.Context, before, after *config.Ignition) error {
	was, _ := wantedUnits(before)
	is, _ := wantedUnits(after)
	for _, u := range before.Systemd.Units {
		if !was[u.Name] || is[u.Name] {
			continue
		}
		if !s.disk.exists(config.UnitPath(u.Name)) && u.Contents != nil && *u.Contents != "" {
			continue // An earlier attempt disabled it and removed its file.
		}
		if err := s.run(ctx, "systemctl", "disable", u.Name); err != nil {
			return err
		}
	}

	return nil
}

// reloadAndEnableUnits reloads systemd, and enables and disables units as the configuration says.
func (s *system) reloadAndEnableUnits(ctx context.Context, before, after *config.Ignition) error {
	if len(before.Systemd.Units)+len(after.Systemd.Units) == 0 {
		return nil
	}
	if err := s.run(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}

	enabled, disabled := wantedUnits(after)
	for verb, units := range map[string]map[string]bool{"enable": enabled, "disable": disabled} {
		if len(units) == 0 {
			continue
		}
		if err := s.run(ctx, "systemctl", append([]string{verb}, slices.Sorted(maps.Keys(units))...)...); err != nil {
			return err
		}
	}

	return nil
}

// systemDiffers reports whether two configurations differ in the operating system image, kernel arguments or
// extensions.
func systemDiffers(from, to *mcfgv1.MachineConfigSpec) bool {
	return from.OSImageURL != to.OSImageURL || !slices.Equal(from.KernelArguments, to.KernelArguments) || !slices.Equal(from.Extensions, to.Extensions)
}

// stageSystemChanges stages the differences in operating system image, kernel arguments and extensions. They take
// effect at the next boot, and can be discarded until then.
func (s *system) stageSystemChanges(ctx context.Context, from, to *mcfgv1.MachineConfigSpec) error {
	var commands [][]string
	if to.OSImageURL != "" && to.OSImageURL != from.OSImageURL {
		commands = append(commands, []string{"rebase", "--experimental", "ostree-unverified-registry:" + to.OSImageURL})
	}

	kargs := []string{"kargs"}
	for _, a := range listMissing(from.KernelArguments, to.KernelArguments) {
		kargs = append(kargs, "--delete-if-present="+a)
	}

	for _, a := range listMissing(to.KernelArguments, from.KernelArguments) {
		kargs = append(kargs, "--append-if-missing="+a)
	}

	commands = append(commands, kargs,
		append([]string{"uninstall", "--idempotent"}, listMissing(from.Extensions, to.Extensions)...),
		append([]string{"install", "--idempotent"}, listMissing(to.Extensions, from.Extensions)...))
	for _, args := range commands {
		if slices.Equal(args, args[:1]) || args[len(args)-1] == "--idempotent" {
			continue // Nothing differs.
		}
		if err := s.run(ctx, "rpm-ostree", args...); err != nil {
			return err
		}
	}

	return nil
}

// discardSystemChanges discards what is staged and has not taken effect.
func (s *system) discardSystemChanges(ctx context.Context) error {
	return s.run(ctx, "rpm-ostree", "cleanup", "--pending")
}

// listMissing returns the items of one list that are not in another.
func listMissing(of, in []string) []string {
	var found []string
	for _, item := range of {
		if !slices.Contains(in, item) {
			found = append(found, item)
		}
	}
	return found
}

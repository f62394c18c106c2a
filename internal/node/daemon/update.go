package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
)

// rebootCommand reboots the machine.
var rebootCommand = []string{"systemctl", "reboot"}

// applyFilesAndUnits makes the files and units of the node those of a configuration. It is idempotent: after a
// failure, call it again. commands are the errors of commands that failed after the files were written.
func (d *Daemon) applyFilesAndUnits(ctx context.Context, from, to *applied) (commands, err error) {
	before, err := from.parseIgnition()
	if err != nil {
		return nil, err
	}

	after, err := to.parseIgnition()
	if err != nil {
		return nil, err
	}

	items, err := accounts{d.disk}.resolveItems(after)
	if err != nil {
		return nil, err
	}

	commands = d.disableRemovedUnits(ctx, before, after)
	if err := d.originals.writeItems(items); err != nil {
		return commands, err
	}

	return errors.Join(commands, d.reloadAndEnableUnits(ctx, before, after)), nil
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
func (d *Daemon) disableRemovedUnits(ctx context.Context, before, after *config.Ignition) error {
	was, _ := wantedUnits(before)
	is, _ := wantedUnits(after)
	for _, u := range before.Systemd.Units {
		if !was[u.Name] || is[u.Name] {
			continue
		}
		if !d.disk.exists(config.UnitPath(u.Name)) && u.Contents != nil && *u.Contents != "" {
			continue // An earlier attempt disabled it and removed its file.
		}
		if err := d.runCommand(ctx, "systemctl", "disable", u.Name); err != nil {
			return err
		}
	}

	return nil
}

// reloadAndEnableUnits reloads systemd, and enables and disables units as the configuration says.
func (d *Daemon) reloadAndEnableUnits(ctx context.Context, before, after *config.Ignition) error {
	if len(before.Systemd.Units)+len(after.Systemd.Units) == 0 {
		return nil
	}
	if err := d.runCommand(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}

	enabled, disabled := wantedUnits(after)
	for verb, units := range map[string]map[string]bool{"enable": enabled, "disable": disabled} {
		if len(units) == 0 {
			continue
		}
		if err := d.runCommand(ctx, "systemctl", append([]string{verb}, slices.Sorted(maps.Keys(units))...)...); err != nil {
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
func (d *Daemon) stageSystemChanges(ctx context.Context, from, to *mcfgv1.MachineConfigSpec) error {
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
		if err := d.runCommand(ctx, "rpm-ostree", args...); err != nil {
			return err
		}
	}

	return nil
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

func (d *Daemon) runCommand(ctx context.Context, name string, args ...string) error {
	d.disk.beforeChange("run", name)
	return d.Host.Run(ctx, name, args...)
}

// applyOrRollBack applies the update of a journal. When that fails, it restores the previous configuration and
// returns why; the returned journal is nil when the restore is complete.
func (d *Daemon) applyOrRollBack(ctx context.Context, j *journal) (*journal, error) {
	if j.Phase == phaseApply {
		err := d.applyConfig(ctx, j)
		if ctx.Err() != nil {
			return j, ctx.Err() // The program ends; the next one resumes.
		}
		if err == nil {
			return j, nil
		}

		j.Phase, j.Reason = phaseRollBack, err.Error()
		if err := d.records.save(journalFile, j); err != nil {
			return j, fmt.Errorf("%s; and that could not be written down: %w", j.Reason, err)
		}
	}

	// Files must be restored. A command may fail here for the same reason as before, which does not fail the
	// restore.
	commands, err := d.applyFilesAndUnits(ctx, &j.To, j.From)
	if systemDiffers(j.From.configSpecOrEmpty(), &j.To.Spec) {
		commands = errors.Join(commands, d.runCommand(ctx, "rpm-ostree", "cleanup", "--pending"))
	}
	if ctx.Err() != nil {
		return j, ctx.Err()
	}
	if err == nil {
		err = d.disk.removePath(journalFile)
	}
	if err != nil {
		return j, fmt.Errorf("%s; and taking it back failed: %w", j.Reason, err)
	}
	if commands != nil {
		return nil, fmt.Errorf("%s; the files were taken back, and then: %w", j.Reason, commands)
	}

	return nil, errors.New(j.Reason)
}

// applyConfig applies the configuration To of a journal.
func (d *Daemon) applyConfig(ctx context.Context, j *journal) error {
	commands, err := d.applyFilesAndUnits(ctx, j.From, &j.To)
	if err := errors.Join(err, commands); err != nil {
		return err
	}
	if err := d.stageSystemChanges(ctx, j.From.configSpecOrEmpty(), &j.To.Spec); err != nil {
		return err
	}

	for _, command := range j.Effort.Commands {
		if err := d.runCommand(ctx, "systemctl", strings.Fields(command)...); err != nil {
			return err
		}
	}

	return nil
}

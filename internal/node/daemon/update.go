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

// reboot is the command that has the machine start again.
var reboot = []string{"systemctl", "reboot"}

// verify says in what the node is not what a configuration says; empty when it is.
func (d *disk) verify(a *applied) (string, error) {
	ignition, err := a.ignition()
	if err != nil {
		return "", err
	}

	items, err := d.items(ignition)
	if err != nil {
		return "", err
	}

	for _, it := range items {
		if why := d.differs(it); why != "" {
			return why, nil
		}
	}

	return "", nil
}

// bring makes the files and units of the node what a configuration says. It may be repeated, from
// wherever an earlier attempt came to. commands are errors of commands, with which the files are
// as they should be all the same.
func (d *Daemon) bring(ctx context.Context, from, to *applied) (commands, err error) {
	before, err := from.ignition()
	if err != nil {
		return nil, err
	}

	after, err := to.ignition()
	if err != nil {
		return nil, err
	}

	items, err := d.disk.items(after)
	if err != nil {
		return nil, err
	}

	commands = d.disable(ctx, before, after)
	if err := d.disk.put(items); err != nil {
		return commands, err
	}

	return errors.Join(commands, d.units(ctx, before, after)), nil
}

// wantedUnits returns the units that a configuration has enabled, and those it has disabled.
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

// disable disables units that leave the configuration, before their files go: afterwards systemd
// does not know them any more.
func (d *Daemon) disable(ctx context.Context, before, after *config.Ignition) error {
	was, _ := wantedUnits(before)
	is, _ := wantedUnits(after)
	for _, u := range before.Systemd.Units {
		if !was[u.Name] || is[u.Name] {
			continue
		}
		if _, err := d.disk.root.Lstat(inside(config.UnitPath(u.Name))); err != nil && u.Contents != nil && *u.Contents != "" {
			continue // An earlier attempt has come further.
		}
		if err := d.run(ctx, "systemctl", "disable", u.Name); err != nil {
			return err
		}
	}

	return nil
}

// units has systemd know the units, and enables and disables them.
func (d *Daemon) units(ctx context.Context, before, after *config.Ignition) error {
	if len(before.Systemd.Units)+len(after.Systemd.Units) == 0 {
		return nil
	}
	if err := d.run(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}

	enabled, disabled := wantedUnits(after)
	for verb, units := range map[string]map[string]bool{"enable": enabled, "disable": disabled} {
		if len(units) == 0 {
			continue
		}
		if err := d.run(ctx, "systemctl", append([]string{verb}, slices.Sorted(maps.Keys(units))...)...); err != nil {
			return err
		}
	}

	return nil
}

// systemDiffers reports whether two configurations differ in what the operating system itself is
// asked for.
func systemDiffers(from, to *mcfgv1.MachineConfigSpec) bool {
	return from.OSImageURL != to.OSImageURL || !slices.Equal(from.KernelArguments, to.KernelArguments) || !slices.Equal(from.Extensions, to.Extensions)
}

// system stages what a configuration asks of the operating system, where that differs from the one
// before. It takes effect at the next start of the machine, and until then can be taken back.
func (d *Daemon) system(ctx context.Context, from, to *mcfgv1.MachineConfigSpec) error {
	var commands [][]string
	if to.OSImageURL != "" && to.OSImageURL != from.OSImageURL {
		commands = append(commands, []string{"rebase", "--experimental", "ostree-unverified-registry:" + to.OSImageURL})
	}

	kargs := []string{"kargs"}
	for _, a := range missing(from.KernelArguments, to.KernelArguments) {
		kargs = append(kargs, "--delete-if-present="+a)
	}

	for _, a := range missing(to.KernelArguments, from.KernelArguments) {
		kargs = append(kargs, "--append-if-missing="+a)
	}

	commands = append(commands, kargs,
		append([]string{"uninstall", "--idempotent"}, missing(from.Extensions, to.Extensions)...),
		append([]string{"install", "--idempotent"}, missing(to.Extensions, from.Extensions)...))
	for _, args := range commands {
		if slices.Equal(args, args[:1]) || args[len(args)-1] == "--idempotent" {
			continue // Nothing is asked for.
		}
		if err := d.run(ctx, "rpm-ostree", args...); err != nil {
			return err
		}
	}

	return nil
}

// missing returns the items of one list that another does not have.
func missing(of, in []string) []string {
	var found []string
	for _, item := range of {
		if !slices.Contains(in, item) {
			found = append(found, item)
		}
	}
	return found
}

func (d *Daemon) run(ctx context.Context, name string, args ...string) error {
	d.disk.change("run", name)
	return d.Host.Run(ctx, name, args...)
}

// carryOut makes the change that the journal tells of, or takes it back where that fails: then the
// error says why, and there is nothing left to do when the journal is nil.
func (d *Daemon) carryOut(ctx context.Context, j *journal) (*journal, error) {
	if j.Phase == phaseApply {
		err := d.apply(ctx, j)
		if ctx.Err() != nil {
			return j, ctx.Err() // The program ends; the next one goes on.
		}
		if err == nil {
			return j, nil
		}

		j.Phase, j.Reason = phaseBack, err.Error()
		if err := d.disk.save(journalFile, j); err != nil {
			return j, fmt.Errorf("%s; and that could not be written down: %w", j.Reason, err)
		}
	}

	// What is taken back is To, as far as it came. Files count; a command that fails may be the
	// one that failed before.
	commands, err := d.bring(ctx, &j.To, j.From)
	if systemDiffers(j.From.specOrEmpty(), &j.To.Spec) {
		commands = errors.Join(commands, d.run(ctx, "rpm-ostree", "cleanup", "--pending"))
	}
	if ctx.Err() != nil {
		return j, ctx.Err()
	}
	if err == nil {
		err = d.disk.remove(journalFile)
	}
	if err != nil {
		return j, fmt.Errorf("%s; and taking it back failed: %w", j.Reason, err)
	}
	if commands != nil {
		return nil, fmt.Errorf("%s; the files were taken back, and then: %w", j.Reason, commands)
	}

	return nil, errors.New(j.Reason)
}

// apply makes the change that the journal tells of.
func (d *Daemon) apply(ctx context.Context, j *journal) error {
	commands, err := d.bring(ctx, j.From, &j.To)
	if err := errors.Join(err, commands); err != nil {
		return err
	}
	if err := d.system(ctx, j.From.specOrEmpty(), &j.To.Spec); err != nil {
		return err
	}

	for _, command := range j.Effort.Commands {
		if err := d.run(ctx, "systemctl", strings.Fields(command)...); err != nil {
			return err
		}
	}

	return nil
}

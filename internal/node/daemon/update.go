package daemon

import (
	"context"
	"errors"
	"fmt"
)

// updater changes the files, units and operating system of a node from one configuration to another.
type updater struct {
	originals originals
	system    system
}

// applyConfig applies the configuration To of a journal.
func (u *updater) applyConfig(ctx context.Context, j *journal) error {
	commands, err := u.applyFilesAndUnits(ctx, j.From, &j.To)
	if err := errors.Join(err, commands); err != nil {
		return err
	}
	if err := u.system.stageSystemChanges(ctx, j.From.configSpecOrEmpty(), &j.To.Spec); err != nil {
		return err
	}
	return u.system.runUnitCommands(ctx, j.Effort.Commands)
}

// rollBack restores the configuration From of a journal, removes the journal, and returns why applying To failed.
func (u *updater) rollBack(ctx context.Context, j *journal) error {
	// Files must be restored. A command may fail here for the same reason as before, which does not fail the
	// restore.
	commands, err := u.applyFilesAndUnits(ctx, &j.To, j.From)
	if systemDiffers(j.From.configSpecOrEmpty(), &j.To.Spec) {
		commands = errors.Join(commands, u.system.discardSystemChanges(ctx))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		err = u.originals.disk.removePath(journalFile)
	}
	if err != nil {
		return fmt.Errorf("%s; and the rollback failed: %w", j.Reason, err)
	}
	if commands != nil {
		return fmt.Errorf("%s; the files were rolled back, and then: %w", j.Reason, commands)
	}

	return errors.New(j.Reason)
}

// applyFilesAndUnits applies the files and units of a configuration to the node. It is idempotent: after a failure, call it again.
// commands are the errors of commands, which do not prevent that the files are written.
func (u *updater) applyFilesAndUnits(ctx context.Context, from, to *applied) (commands, err error) {
	before, err := from.parseIgnition()
	if err != nil {
		return nil, err
	}

	after, err := to.parseIgnition()
	if err != nil {
		return nil, err
	}

	items, err := accounts{u.originals.disk}.resolveItems(after)
	if err != nil {
		return nil, err
	}

	commands = u.system.disableRemovedUnits(ctx, before, after)
	if err := u.originals.writeItems(items); err != nil {
		return commands, err
	}

	return errors.Join(commands, u.system.reloadAndEnableUnits(ctx, before, after)), nil
}

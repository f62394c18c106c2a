package indexdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// EditOptions configure how a database is edited.
type EditOptions struct {
	Options
	// CreateIfMissing creates the database if it does not exist.
	CreateIfMissing bool
}

// Editor changes a database within a call of Edit. Each of its methods is atomic.
type Editor struct {
	tx   *sql.Tx
	opts EditOptions
}

// Edit opens the database at path, migrated to LatestLevel, and calls edit to change it. If
// edit returns no error, the changed database replaces the original atomically. Otherwise
// the file stays unchanged. The folder of the database must have space for a second copy of
// it.
//
// It returns ErrChanged if another program changed the file in the meantime.
func Edit(ctx context.Context, path string, opts EditOptions, edit func(*Editor) error) error {
	target, err := resolveLinks(path)
	if err != nil {
		return fmt.Errorf("index database %s: %w", path, err)
	}

	before, err := inspectDatabaseFile(target, opts.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist) && opts.CreateIfMissing:
	case err != nil:
		return fmt.Errorf("index database %s: %w", path, err)
	case before.Size() == 0 && !opts.CreateIfMissing:
		return fmt.Errorf("index database %s: %w: it is empty", path, ErrNotDatabase)
	}

	temp, err := createWorkingCopy(ctx, target, before, opts)
	if err != nil {
		return fmt.Errorf("index database %s: %w", path, err)
	}
	defer func() { _ = os.Remove(temp) }() // After a success it has been renamed.

	conn, err := prepareWorkingCopy(ctx, temp, opts)
	if err != nil {
		return fmt.Errorf("index database %s: %w", path, explainSQLiteError(err))
	}

	err = conn.runEdit(ctx, opts, edit)
	conn.close()
	if err != nil {
		return explainSQLiteError(err) // An error of edit does not need the name of the file.
	}

	mode := fs.FileMode(0o644)
	if before != nil {
		mode = before.Mode().Perm()
	}
	if err := checkUnchanged(target, before); err != nil {
		return fmt.Errorf("index database %s: %w", path, err)
	}
	if err := replaceFileAtomically(temp, target, mode); err != nil {
		return fmt.Errorf("index database %s: %w", path, err)
	}

	return nil
}

// resolveLinks returns the target of a path, so that a symbolic link to it is kept.
func resolveLinks(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Abs(path)
	}
	return target, err
}

// createWorkingCopy creates a copy next to the target. It is empty if before is nil.
func createWorkingCopy(ctx context.Context, target string, before fs.FileInfo, opts EditOptions) (string, error) {
	file, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*")
	if err != nil {
		return "", err
	}
	if before != nil {
		err = copyLimited(ctx, file, target, maxDatabaseSize(opts.MaxBytes))
	}
	if err := errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return "", err
	}

	return file.Name(), nil
}

// checkUnchanged returns ErrChanged if a file differs from before.
func checkUnchanged(path string, before fs.FileInfo) error {
	now, err := os.Stat(path)
	switch {
	case before == nil && errors.Is(err, fs.ErrNotExist):
		return nil
	case before == nil && err == nil:
		return ErrChanged
	case err != nil:
		return err
	case !os.SameFile(now, before) || now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime()):
		return ErrChanged
	default:
		return nil
	}
}

// prepareWorkingCopy opens a private copy, checks it and migrates it to the latest level.
func prepareWorkingCopy(ctx context.Context, path string, opts EditOptions) (*connection, error) {
	conn, err := openConnection(ctx, path, readWrite)
	if err != nil {
		return nil, err
	}

	// The schema must be safe before any other statement runs, even a check.
	_, err = checkSchema(ctx, conn)
	if err == nil {
		err = quickCheck(ctx, conn)
	}
	if err == nil {
		err = conn.migrateToLatest(ctx, opts.Options)
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, `PRAGMA foreign_keys = 1`)
	}
	if err != nil {
		conn.close()
		return nil, err
	}

	return conn, nil
}

// runEdit runs an edit in a transaction.
func (c *connection) runEdit(ctx context.Context, opts EditOptions, edit func(*Editor) error) error {
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // It does nothing after the commit.

	if err := createEditIndexes(ctx, tx); err != nil {
		return err
	}
	if err := edit(&Editor{tx: tx, opts: opts}); err != nil {
		return err
	}
	if err := dropEditIndexes(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}

	_, err = c.ExecContext(ctx, `VACUUM`)
	return err
}

// quickCheck returns an error for a database with damaged pages.
func quickCheck(ctx context.Context, conn *connection) error {
	findings, err := queryTexts(ctx, conn, `PRAGMA quick_check(1)`)
	if err != nil {
		return err
	}
	if len(findings) != 1 || findings[0] != "ok" {
		return fmt.Errorf("%w: %q", ErrDamaged, findings)
	}
	return nil
}

// editIndexes are indexes that exist during an edit only. Without them, SQLite would scan
// whole tables for references to each deleted bundle.
var editIndexes = map[string]string{
	"edit_properties":    `properties (operatorbundle_name, operatorbundle_version, operatorbundle_path)`,
	"edit_dependencies":  `dependencies (operatorbundle_name, operatorbundle_version, operatorbundle_path)`,
	"edit_providers":     `api_provider (operatorbundle_name, operatorbundle_version, operatorbundle_path)`,
	"edit_requirers":     `api_requirer (operatorbundle_name, operatorbundle_version, operatorbundle_path)`,
	"edit_provided_apis": `api_provider (group_name, version, kind)`,
	"edit_required_apis": `api_requirer (group_name, version, kind)`,
	"edit_images":        `related_image (operatorbundle_name)`,
	"edit_entries":       `channel_entry (package_name, channel_name)`,
	"edit_entry_bundles": `channel_entry (operatorbundle_name)`,
	"edit_entry_edges":   `channel_entry (replaces)`,
	"edit_heads":         `channel (head_operatorbundle_name)`,
}

// createEditIndexes creates the indexes for edits, and replaces all triggers of the file by
// those of this package.
func createEditIndexes(ctx context.Context, tx *sql.Tx) error {
	if err := dropTriggers(ctx, tx); err != nil {
		return err
	}
	if err := execStatements(ctx, tx, cleanupTriggers); err != nil {
		return err
	}

	for name, on := range editIndexes {
		if _, err := tx.ExecContext(ctx, `CREATE INDEX IF NOT EXISTS `+name+` ON `+on); err != nil {
			return err
		}
	}
	return nil
}

// dropEditIndexes drops the indexes for edits.
func dropEditIndexes(ctx context.Context, tx *sql.Tx) error {
	for name := range editIndexes {
		if _, err := tx.ExecContext(ctx, `DROP INDEX IF EXISTS `+name); err != nil {
			return err
		}
	}
	return nil
}

// runAtomically runs a part of an edit, and rolls it back if it fails.
func (e *Editor) runAtomically(ctx context.Context, part func() error) error {
	if _, err := e.tx.ExecContext(ctx, `SAVEPOINT part`); err != nil {
		return err
	}

	err := part()
	if err != nil {
		// The rollback must run even if the context is done.
		_, undone := e.tx.ExecContext(context.WithoutCancel(ctx), `ROLLBACK TO part`)
		err = errors.Join(err, undone)
	}

	_, released := e.tx.ExecContext(context.WithoutCancel(ctx), `RELEASE part`)
	return errors.Join(err, released)
}

// warnIfPermissive turns an error into a warning if permissive is set.
func (e *Editor) warnIfPermissive(err error, permissive bool) error {
	if err != nil && permissive {
		e.opts.warn("permissive mode enabled", err)
		return nil
	}
	return err
}

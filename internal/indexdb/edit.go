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

// EditOptions are how a database is edited.
type EditOptions struct {
	Options
	// Create makes the database if there is none.
	Create bool
}

// Editor changes a database within a call of Edit. Each of its methods changes it as a
// whole or not at all.
type Editor struct {
	tx   *sql.Tx
	opts EditOptions
}

// Edit opens the database at path, migrated to LatestLevel, and has edit change it. When
// edit gives no error, the changed database takes the place of the one before, in one
// step; in every other case the file stays as it was. The folder of the database must have
// space for a second copy of it.
//
// ErrChanged says that the file was changed by somebody else meanwhile.
func Edit(ctx context.Context, path string, opts EditOptions, edit func(*Editor) error) error {
	target, err := resolveLinks(path)
	if err != nil {
		return fmt.Errorf("index database %s: %w", path, err)
	}

	before, err := inspect(target, opts.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist) && opts.Create:
	case err != nil:
		return fmt.Errorf("index database %s: %w", path, err)
	case before.Size() == 0 && !opts.Create:
		return fmt.Errorf("index database %s: %w: it is empty", path, ErrNotDatabase)
	}

	temp, err := workingCopy(ctx, target, before, opts)
	if err != nil {
		return fmt.Errorf("index database %s: %w", path, err)
	}

	defer func() { _ = os.Remove(temp) }() // It is gone already if it took the place of the original.
	conn, err := prepare(ctx, temp, opts)
	if err != nil {
		return fmt.Errorf("index database %s: %w", path, explain(err))
	}

	err = conn.edit(ctx, opts, edit)
	conn.close()
	if err != nil {
		return explain(err) // What edit says needs no name of a file.
	}

	mode := fs.FileMode(0o644)
	if before != nil {
		mode = before.Mode().Perm()
	}
	if err := unchanged(target, before); err != nil {
		return fmt.Errorf("index database %s: %w", path, err)
	}
	if err := replace(temp, target, mode); err != nil {
		return fmt.Errorf("index database %s: %w", path, err)
	}

	return nil
}

// resolveLinks returns the file that a path leads to, so that a link to it stays one.
func resolveLinks(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Abs(path)
	}
	return target, err
}

// workingCopy makes a copy beside the target. It is empty if before is nil.
func workingCopy(ctx context.Context, target string, before fs.FileInfo, opts EditOptions) (string, error) {
	file, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*")
	if err != nil {
		return "", err
	}
	if before != nil {
		err = copyFile(ctx, file, target, maxSize(opts.MaxBytes))
	}
	if err := errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return "", err
	}

	return file.Name(), nil
}

// unchanged compares a file with how it was.
func unchanged(path string, before fs.FileInfo) error {
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

// prepare makes of whatever a private copy holds a sound database of the latest level.
func prepare(ctx context.Context, path string, opts EditOptions) (*connection, error) {
	conn, err := connect(ctx, path, readWrite)
	if err != nil {
		return nil, err
	}

	// Before anything is run on it, even a check.
	_, err = checkSchema(ctx, conn)
	if err == nil {
		err = quickCheck(ctx, conn)
	}
	if err == nil {
		err = conn.migrate(ctx, opts.Options)
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

// edit runs an edit in a transaction.
func (c *connection) edit(ctx context.Context, opts EditOptions, edit func(*Editor) error) error {
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer func() { _ = tx.Rollback() }() // It does nothing after the commit.
	if err := scaffold(ctx, tx); err != nil {
		return err
	}
	if err := edit(&Editor{tx: tx, opts: opts}); err != nil {
		return err
	}
	if err := unscaffold(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}

	_, err = c.ExecContext(ctx, `VACUUM`)
	return err
}

// quickCheck finds damaged pages before anything is built on them.
func quickCheck(ctx context.Context, conn *connection) error {
	findings, err := texts(ctx, conn, `PRAGMA quick_check(1)`)
	if err != nil {
		return err
	}
	if len(findings) != 1 || findings[0] != "ok" {
		return fmt.Errorf("%w: %q", ErrDamaged, findings)
	}
	return nil
}

// helpers are indexes that exist during an edit only: without them, each deleted bundle
// would have SQLite look through whole tables for what refers to it.
var helpers = map[string]string{
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

// scaffold puts the helpers up, and this package's triggers into the place of those that
// came with the file.
func scaffold(ctx context.Context, tx *sql.Tx) error {
	if err := dropTriggers(ctx, tx); err != nil {
		return err
	}
	if err := exec(ctx, tx, triggers); err != nil {
		return err
	}

	for name, on := range helpers {
		if _, err := tx.ExecContext(ctx, `CREATE INDEX IF NOT EXISTS `+name+` ON `+on); err != nil {
			return err
		}
	}
	return nil
}

func unscaffold(ctx context.Context, tx *sql.Tx) error {
	for name := range helpers {
		if _, err := tx.ExecContext(ctx, `DROP INDEX IF EXISTS `+name); err != nil {
			return err
		}
	}
	return nil
}

// atomically runs a part of an edit, and takes back what it did if it fails.
func (e *Editor) atomically(ctx context.Context, part func() error) error {
	if _, err := e.tx.ExecContext(ctx, `SAVEPOINT part`); err != nil {
		return err
	}

	err := part()
	if err != nil {
		// The context may have ended; what was done must be taken back all the same.
		_, undone := e.tx.ExecContext(context.WithoutCancel(ctx), `ROLLBACK TO part`)
		err = errors.Join(err, undone)
	}

	_, released := e.tx.ExecContext(context.WithoutCancel(ctx), `RELEASE part`)
	return errors.Join(err, released)
}

// permit makes of the errors of parts, if they are permitted, warnings.
func (e *Editor) permit(err error, permissive bool) error {
	if err != nil && permissive {
		e.opts.warn("permissive mode enabled", err)
		return nil
	}
	return err
}

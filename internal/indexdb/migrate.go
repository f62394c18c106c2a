package indexdb

import (
	"context"
	"database/sql"
	"fmt"
)

const (
	// LatestLevel is the schema level that this package reads and writes.
	LatestLevel = 13
	// noLevel is the level of a database without a schema, or of one from before levels
	// were counted.
	noLevel = -1
)

// migration migrates a database to a level from the previous one.
type migration struct {
	level int
	up    func(ctx context.Context, tx *migrationTx) error
}

// migrationTx is the transaction of a migration. The triggers of the final schema do not
// exist in it, and foreign keys are not enforced, because tables are rebuilt.
type migrationTx struct {
	*sql.Tx
	opts Options
}

// execAll runs statements one by one.
func (tx *migrationTx) execAll(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// newStatementsStep returns a migration that runs statements.
func newStatementsStep(statements ...string) func(context.Context, *migrationTx) error {
	return func(ctx context.Context, tx *migrationTx) error { return tx.execAll(ctx, statements...) }
}

// migrateToLatest migrates a database to the latest level. It does not change the database
// if it fails.
func (c *connection) migrateToLatest(ctx context.Context, opts Options) error {
	return c.migrateWithSteps(ctx, opts, migrations)
}

func (c *connection) migrateWithSteps(ctx context.Context, opts Options, steps []migration) error {
	level, err := checkSchema(ctx, c)
	if err != nil {
		return err
	}
	if level == LatestLevel {
		return nil
	}

	for _, pragma := range []string{
		`PRAGMA foreign_keys = 0`,
		// A table that is renamed to the name of a dropped one takes over the references
		// to that name. References to its old name are not changed.
		`PRAGMA legacy_alter_table = 1`,
	} {
		if _, err := c.ExecContext(ctx, pragma); err != nil {
			return err
		}
	}

	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // It does nothing after the commit.

	if err := dropTriggers(ctx, tx); err != nil {
		return err
	}
	if err := migrateFrom(ctx, &migrationTx{tx, opts}, level, steps); err != nil {
		return err
	}

	return tx.Commit()
}

func migrateFrom(ctx context.Context, tx *migrationTx, level int, steps []migration) error {
	err := tx.execAll(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations (version bigint NOT NULL, timestamp DATETIME DEFAULT CURRENT_TIMESTAMP)`)
	if err != nil {
		return err
	}

	for _, step := range steps {
		if step.level <= level {
			continue
		}
		if step.level != level+1 {
			return fmt.Errorf("migration applied out of order: the database is at level %d, the next migration leads to %d", level, step.level)
		}
		if err := step.up(ctx, tx); err != nil {
			return fmt.Errorf("migration to level %d: %w", step.level, err)
		}
		level = step.level
	}

	if err := tx.execAll(ctx, `DELETE FROM schema_migrations`); err != nil {
		return err
	}

	// The time is that of all files of an image, so that equal content has equal bytes.
	_, err = tx.ExecContext(ctx, `INSERT INTO schema_migrations (version, timestamp) VALUES (?, '1970-01-01 00:00:00')`, level)
	return err
}

// dropTriggers drops all triggers, which would run with the statements of this package.
func dropTriggers(ctx context.Context, q querier) error {
	_, names, err := listSchema(ctx, q)
	if err != nil {
		return err
	}

	for _, name := range names {
		if _, err := q.ExecContext(ctx, `DROP TRIGGER IF EXISTS `+quoteIdentifier(name)); err != nil {
			return err
		}
	}

	// A damaged schema may list a trigger under another name than its own.
	if _, names, err = listSchema(ctx, q); err == nil && len(names) > 0 {
		err = fmt.Errorf("%w: its triggers %q cannot be removed", ErrDamaged, names)
	}

	return err
}

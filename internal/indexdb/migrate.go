package indexdb

import (
	"context"
	"database/sql"
	"fmt"
)

const (
	// LatestLevel is the schema level that this package reads and writes.
	LatestLevel = 13
	// noLevel is the level of a database that has no schema, or one from before levels
	// were counted.
	noLevel = -1
)

// migration brings a database to a level from the one before.
type migration struct {
	level int
	up    func(ctx context.Context, tx *migrating) error
}

// migrating is a migration's transaction. The triggers of the final schema do not exist
// in it, and foreign keys are not enforced: tables are rebuilt in it.
type migrating struct {
	*sql.Tx
	opts Options
}

// run runs statements one by one.
func (tx *migrating) run(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// ddl is a migration of statements only.
func ddl(statements ...string) func(context.Context, *migrating) error {
	return func(ctx context.Context, tx *migrating) error { return tx.run(ctx, statements...) }
}

// migrate brings a database to the latest level, or leaves it as it was.
func (c *connection) migrate(ctx context.Context, opts Options) error {
	return c.migrateBy(ctx, opts, migrations)
}

func (c *connection) migrateBy(ctx context.Context, opts Options, steps []migration) error {
	level, err := checkSchema(ctx, c)
	if err != nil {
		return err
	}
	if level == LatestLevel {
		return nil
	}

	for _, pragma := range []string{
		`PRAGMA foreign_keys = 0`,
		// A table that is renamed into the place of a dropped one takes over the references
		// to it, and is not followed by those to the old.
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
	if err := migrateFrom(ctx, &migrating{tx, opts}, level, steps); err != nil {
		return err
	}

	return tx.Commit()
}

func migrateFrom(ctx context.Context, tx *migrating, level int, steps []migration) error {
	err := tx.run(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations (version bigint NOT NULL, timestamp DATETIME DEFAULT CURRENT_TIMESTAMP)`)
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

	if err := tx.run(ctx, `DELETE FROM schema_migrations`); err != nil {
		return err
	}

	// The time is that of every file of an image, so that equal content is equal bytes.
	_, err = tx.ExecContext(ctx, `INSERT INTO schema_migrations (version, timestamp) VALUES (?, '1970-01-01 00:00:00')`, level)
	return err
}

// dropTriggers removes whatever would run beside the statements of this package.
func dropTriggers(ctx context.Context, q querier) error {
	_, names, err := listSchema(ctx, q)
	if err != nil {
		return err
	}

	for _, name := range names {
		if _, err := q.ExecContext(ctx, `DROP TRIGGER IF EXISTS `+quoteName(name)); err != nil {
			return err
		}
	}

	// A damaged schema may list a trigger under another name than its own.
	if _, names, err = listSchema(ctx, q); err == nil && len(names) > 0 {
		err = fmt.Errorf("%w: its triggers %q cannot be removed", ErrDamaged, names)
	}

	return err
}

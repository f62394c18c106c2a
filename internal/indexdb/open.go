package indexdb

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Options are what reading and editing have in common. The zero value is a good default.
type Options struct {
	// MaxBytes is the largest database file, in bytes. Default 4 GiB.
	MaxBytes int64
	// TempDir is where a private copy is made of a database that has to be migrated before
	// it can be read. Default: the system's folder for temporary files.
	TempDir string
	// SkipMigrate has Open read a database of an older level as it is. What that level does
	// not have is then an error. Edit always migrates.
	SkipMigrate bool
	// Warn is told what was passed over or could not be done, and why; err may be nil.
	// Default: nobody is told.
	Warn func(message string, err error)
}

func (o Options) warn(message string, err error) {
	if o.Warn != nil {
		o.Warn(message, err)
	}
}

// Index is a database that is open for reading. Its methods must not be called at the
// same time from several goroutines.
type Index struct {
	conn *connection
	opts Options
	// temp is the private copy that is read, if there is one.
	temp string
}

// Open opens a database for reading. Nothing is written to it: if its schema is of an
// older level than LatestLevel, a copy of it is migrated and read instead, unless
// SkipMigrate is set. The file must not change while it is open.
//
// Besides the errors of this package there are those of the file system, such as
// fs.ErrNotExist.
func Open(ctx context.Context, path string, opts Options) (*Index, error) {
	index, err := open(ctx, path, opts)
	if err != nil {
		return nil, fmt.Errorf("index database %s: %w", path, explain(err))
	}
	return index, nil
}

func open(ctx context.Context, path string, opts Options) (*Index, error) {
	info, err := inspect(path, opts.MaxBytes)
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrNotDatabase)
	}

	conn, err := connect(ctx, path, readOnly)
	if err != nil {
		return nil, err
	}

	level, err := checkSchema(ctx, conn)
	if err != nil {
		conn.close()
		return nil, err
	}
	if level == LatestLevel || opts.SkipMigrate {
		return &Index{conn: conn, opts: opts}, nil
	}

	conn.close()
	return openMigrated(ctx, path, opts)
}

// openMigrated opens a copy of the database.
func openMigrated(ctx context.Context, path string, opts Options) (index *Index, err error) {
	file, err := os.CreateTemp(opts.TempDir, "index-*.db")
	if err != nil {
		return nil, err
	}

	temp := file.Name()
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
		}
	}()
	err = copyFile(ctx, file, path, maxSize(opts.MaxBytes))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}

	conn, err := connect(ctx, temp, readWrite)
	if err != nil {
		return nil, err
	}

	err = conn.migrate(ctx, opts)
	conn.close()
	if err != nil {
		return nil, err
	}
	if conn, err = connect(ctx, temp, readOnly); err != nil {
		return nil, err
	}

	return &Index{conn: conn, opts: opts, temp: temp}, nil
}

// Close frees what the index holds, the private copy of a migrated database included.
func (x *Index) Close() error {
	x.conn.close()
	if x.temp == "" {
		return nil
	}
	return os.Remove(x.temp)
}

type access int

const (
	readOnly access = iota
	readWrite
)

// connection is one connection to a database, with the limits and settings of this package.
type connection struct {
	db *sql.DB
	*sql.Conn
}

func connect(ctx context.Context, path string, mode access) (*connection, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}

	query := url.Values{
		"_defensive": {"1"},
		// Nothing that stands in the schema may have side effects or take its time, and what
		// a page says of itself is checked. Sorting must not take memory without bound.
		"_pragma": {"trusted_schema(0)", "cell_size_check(1)", "mmap_size(0)", "temp_store(1)", "ignore_check_constraints(1)"},
	}

	if mode == readOnly {
		query.Set("mode", "ro")
		query.Set("immutable", "1")
	} else {
		query.Set("mode", "rw")
		// It is a private copy: a crash loses nothing. The journal is for rolling back.
		query.Add("_pragma", "journal_mode(MEMORY)")
		query.Add("_pragma", "synchronous(0)")
		query.Add("_pragma", "locking_mode(EXCLUSIVE)")
	}

	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(absolute), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}

	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close()
		return nil, err
	}

	c := &connection{db: db, Conn: conn}
	if _, err := sqlite.Limit(conn, sqlite3.SQLITE_LIMIT_LENGTH, maxValueBytes); err != nil {
		c.close()
		return nil, err
	}

	return c, nil
}

func (c *connection) close() {
	_ = c.Close() // It was only read, or everything was committed before.
	_ = c.db.Close()
}

// maxSchemaObjects bounds the tables, indexes and triggers of a database. An index has 30.
const maxSchemaObjects = 200

// tablesOfAnIndex are the tables that statements of this package name.
var tablesOfAnIndex = []string{
	"api", "api_provider", "api_requirer", "channel", "channel_entry", "dependencies", "deprecated",
	"operatorbundle", "package", "properties", "related_image", "schema_migrations",
}

// checkSchema tells the schema level of a database, and refuses one that is not an index
// or has in its schema what no index has: a view or a generated column would be code of a
// stranger.
func checkSchema(ctx context.Context, conn *connection) (int, error) {
	tables, _, err := listSchema(ctx, conn)
	if err != nil {
		return 0, err
	}

	for _, table := range slices.Concat(tables, tablesOfAnIndex) {
		var hidden int
		err := conn.QueryRowContext(ctx, `SELECT count(*) FROM pragma_table_xinfo(?) WHERE hidden <> 0`, table).Scan(&hidden)
		if err != nil {
			return 0, err
		}
		if hidden > 0 {
			return 0, fmt.Errorf("%w: the table %q has generated columns", ErrNotIndex, table)
		}
	}

	switch {
	case slices.Contains(tables, "schema_migrations"):
		return storedLevel(ctx, conn)
	case len(tables) > 0 && !slices.Contains(tables, "operatorbundle"):
		return 0, fmt.Errorf("%w: it has no table operatorbundle", ErrNotIndex)
	default:
		return noLevel, nil
	}
}

// listSchema returns the names of the tables, in lower case, and of the triggers. What
// stands in the column "type" is not what SQLite goes by, so the statements themselves are
// looked at.
func listSchema(ctx context.Context, q querier) (tables, triggers []string, err error) {
	rows, err := q.QueryContext(ctx, `SELECT CAST(name AS TEXT), coalesce(CAST(sql AS TEXT), '') FROM sqlite_schema WHERE name IS NOT NULL LIMIT ?`, maxSchemaObjects+1)
	if err != nil {
		return nil, nil, err
	}

	n := 0
	err = scan(rows, func() error {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		if n++; n > maxSchemaObjects {
			return fmt.Errorf("%w: it has more than %d tables and indexes", ErrNotIndex, maxSchemaObjects)
		}

		words := strings.Fields(strings.ToUpper(text[:min(len(text), 40)]))
		switch statement := strings.Join(words[:min(len(words), 2)], " "); statement {
		case "CREATE TABLE":
			tables = append(tables, strings.ToLower(name))
		case "CREATE TRIGGER":
			triggers = append(triggers, name)
		case "", "CREATE INDEX", "CREATE UNIQUE":
		default:
			return fmt.Errorf("%w: %q is neither a table nor an index", ErrNotIndex, name)
		}

		return nil
	})

	return tables, triggers, err
}

// storedLevel reads the level that a database states.
func storedLevel(ctx context.Context, conn querier) (int, error) {
	var count int
	var version sql.NullInt64
	err := conn.QueryRowContext(ctx, `SELECT count(*), max(CAST(version AS INTEGER)) FROM schema_migrations`).Scan(&count, &version)
	if err != nil {
		return 0, err
	}

	switch {
	case count != 1 || !version.Valid:
		return 0, fmt.Errorf("%w: schema_migrations has %d rows, it must have one", ErrNotIndex, count)
	case version.Int64 < 0 || version.Int64 > int64(LatestLevel):
		return 0, fmt.Errorf("%w: it is %d, the latest known is %d", ErrLevel, version.Int64, LatestLevel)
	}

	return int(version.Int64), nil
}

// querier is what a connection and a transaction have in common.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

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

// Options are the common options of reading and editing. The zero value is a good default.
type Options struct {
	// MaxBytes is the maximum size of a database file. The default is 4 GiB.
	MaxBytes int64
	// TempDir is the folder for the private copy of a database that has to be migrated
	// before it can be read. The default is the system's folder for temporary files.
	TempDir string
	// SkipMigrate makes Open read a database of an older level without migration. Content
	// that the level does not have is then an error. Edit always migrates.
	SkipMigrate bool
	// Warn is called for content that is ignored, with the reason. The error may be nil. By
	// default, warnings are dropped.
	Warn func(message string, err error)
}

func (o Options) warn(message string, err error) {
	if o.Warn != nil {
		o.Warn(message, err)
	}
}

// Index is a database that is open for reading. It is not safe for concurrent use.
type Index struct {
	conn *connection
	opts Options
	// temp is the path of the private copy, or empty.
	temp string
}

// Open opens a database for reading. It does not write to it: a database of a level below
// LatestLevel is copied and the copy is migrated, unless SkipMigrate is set. The file must
// not change while it is open.
//
// It returns errors of this package and of the file system, such as fs.ErrNotExist.
func Open(ctx context.Context, path string, opts Options) (*Index, error) {
	index, err := openIndex(ctx, path, opts)
	if err != nil {
		return nil, fmt.Errorf("index database %s: %w", path, explainSQLiteError(err))
	}
	return index, nil
}

func openIndex(ctx context.Context, path string, opts Options) (*Index, error) {
	info, err := inspectDatabaseFile(path, opts.MaxBytes)
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrNotDatabase)
	}

	conn, err := openConnection(ctx, path, readOnly)
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
	return openMigratedCopy(ctx, path, opts)
}

// openMigratedCopy opens a migrated copy of the database.
func openMigratedCopy(ctx context.Context, path string, opts Options) (index *Index, err error) {
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
	err = copyLimited(ctx, file, path, maxDatabaseSize(opts.MaxBytes))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}

	conn, err := openConnection(ctx, temp, readWrite)
	if err != nil {
		return nil, err
	}

	err = conn.migrateToLatest(ctx, opts)
	conn.close()
	if err != nil {
		return nil, err
	}
	if conn, err = openConnection(ctx, temp, readOnly); err != nil {
		return nil, err
	}

	return &Index{conn: conn, opts: opts, temp: temp}, nil
}

// Close closes the index, and removes the private copy of a migrated database.
func (x *Index) Close() error {
	x.conn.close()
	if x.temp == "" {
		return nil
	}
	return os.Remove(x.temp)
}

type accessMode int

const (
	readOnly accessMode = iota
	readWrite
)

// connection is a connection to a database, with the limits and settings of this package.
type connection struct {
	db *sql.DB
	*sql.Conn
}

func openConnection(ctx context.Context, path string, mode accessMode) (*connection, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}

	query := url.Values{
		"_defensive": {"1"},
		// Nothing in the schema may have side effects or run for long, and the cell sizes of
		// pages are checked. Sorting must not use unlimited memory.
		"_pragma": {"trusted_schema(0)", "cell_size_check(1)", "mmap_size(0)", "temp_store(1)", "ignore_check_constraints(1)"},
	}

	if mode == readOnly {
		query.Set("mode", "ro")
		query.Set("immutable", "1")
	} else {
		query.Set("mode", "rw")
		// A crash only loses a private copy. The journal is needed for rollbacks.
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

// indexTables are the tables in statements of this package.
var indexTables = []string{
	"api", "api_provider", "api_requirer", "channel", "channel_entry", "dependencies", "deprecated",
	"operatorbundle", "package", "properties", "related_image", "schema_migrations",
}

// checkSchema returns the schema level of a database. It returns an error for a database
// that is not an index, or whose schema has a view or a generated column: those could run
// untrusted code.
func checkSchema(ctx context.Context, conn *connection) (int, error) {
	tables, _, err := listSchema(ctx, conn)
	if err != nil {
		return 0, err
	}

	for _, table := range slices.Concat(tables, indexTables) {
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
		return readStoredLevel(ctx, conn)
	case len(tables) > 0 && !slices.Contains(tables, "operatorbundle"):
		return 0, fmt.Errorf("%w: it has no table operatorbundle", ErrNotIndex)
	default:
		return noLevel, nil
	}
}

// listSchema returns the names of the tables, in lower case, and of the triggers. It reads
// the statements themselves, because SQLite ignores the column "type".
func listSchema(ctx context.Context, q querier) (tables, triggers []string, err error) {
	rows, err := q.QueryContext(ctx, `SELECT CAST(name AS TEXT), coalesce(CAST(sql AS TEXT), '') FROM sqlite_schema WHERE name IS NOT NULL LIMIT ?`, maxSchemaObjects+1)
	if err != nil {
		return nil, nil, err
	}

	n := 0
	err = forEachRow(rows, func() error {
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

// readStoredLevel reads the schema level of a database.
func readStoredLevel(ctx context.Context, conn querier) (int, error) {
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
		return 0, fmt.Errorf("%w: it is %d, the latest known is %d", ErrUnsupportedLevel, version.Int64, LatestLevel)
	}

	return int(version.Int64), nil
}

// querier is the common interface of a connection and a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

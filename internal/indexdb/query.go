package indexdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Helpers for queries. Statements cast columns to text, because SQLite stores any type in any
// column.

// queryTexts returns the first column of all rows. NULL becomes an empty string.
func queryTexts(ctx context.Context, q querier, query string, args ...any) ([]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}

	var values []string
	err = forEachRow(rows, func() error {
		if len(values) == maxTableRows {
			return fmt.Errorf("%w: a table has more than %d rows", ErrTooLarge, maxTableRows)
		}

		var value sql.NullString
		err := rows.Scan(&value)
		values = append(values, value.String)

		return err
	})

	return values, err
}

// forEachRow calls f for each row, and closes the rows.
func forEachRow(rows *sql.Rows, f func() error) error {
	defer func() { _ = rows.Close() }() // Err returns the error.
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// queryText returns the first column of the first row, and whether there is a row.
func queryText(ctx context.Context, q querier, query string, args ...any) (string, bool, error) {
	var value sql.NullString
	err := q.QueryRowContext(ctx, query, args...).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return value.String, err == nil, err
}

// execStatements runs statements with the same arguments.
func execStatements(ctx context.Context, q querier, statements []string, args ...any) error {
	for _, statement := range statements {
		if _, err := q.ExecContext(ctx, statement, args...); err != nil {
			return err
		}
	}
	return nil
}

// nullIfEmpty returns the form in which rows of other tables refer to the version and image
// of a bundle.
func nullIfEmpty(value string) any {
	if value == "" {
		return nil
	}
	return value
}

// quoteIdentifier quotes any name for use in a statement.
func quoteIdentifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

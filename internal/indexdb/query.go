package indexdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Small forms of the queries that this package is made of. Columns are cast to text in the
// statements: SQLite stores any type in any column.

// texts returns the first column of all rows. NULL becomes the empty text.
func texts(ctx context.Context, q querier, query string, args ...any) ([]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}

	var values []string
	err = scan(rows, func() error {
		if len(values) == maxRows {
			return fmt.Errorf("%w: a table has more than %d rows", ErrTooLarge, maxRows)
		}

		var value sql.NullString
		err := rows.Scan(&value)
		values = append(values, value.String)

		return err
	})

	return values, err
}

// scan calls f at each of some rows, and closes them.
func scan(rows *sql.Rows, f func() error) error {
	defer func() { _ = rows.Close() }() // Err tells what went wrong.
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// text returns the first column of the first row, and whether there is such a row.
func text(ctx context.Context, q querier, query string, args ...any) (string, bool, error) {
	var value sql.NullString
	err := q.QueryRowContext(ctx, query, args...).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return value.String, err == nil, err
}

// exec runs statements that take the same arguments.
func exec(ctx context.Context, q querier, statements []string, args ...any) error {
	for _, statement := range statements {
		if _, err := q.ExecContext(ctx, statement, args...); err != nil {
			return err
		}
	}
	return nil
}

// orNull is the form in which rows that hang on a bundle refer to its version and image.
func orNull(value string) any {
	if value == "" {
		return nil
	}
	return value
}

// quoteName makes a name that any object of a schema can have part of a statement.
func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

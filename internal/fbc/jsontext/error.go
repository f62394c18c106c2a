package jsontext

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrTruncated means that the text ends within a value.
var ErrTruncated = errors.New("unexpected end of JSON input")

// ErrTooDeep means that objects and lists are nested deeper than allowed.
var ErrTooDeep = errors.New("is nested too deep")

var errNotOneString = errors.New("is not one JSON string")

// SyntaxError is the error for a text that is not JSON.
type SyntaxError struct {
	// Offset is the index of the first invalid byte, or the length of the text if it ends too
	// early.
	Offset int
	// Err is the cause: ErrTruncated, ErrTooDeep or an error with the text of encoding/json.
	Err error
}

func (e *SyntaxError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SyntaxError) Unwrap() error { return e.Err }

// failAtIndex sets the error for an index at which the text ends or has an invalid byte. It returns
// -1.
func (c *compactor) failAtIndex(i int, context string) int {
	if i >= len(c.src) {
		c.err = &SyntaxError{Offset: len(c.src), Err: ErrTruncated}
		return -1
	}
	c.err = &SyntaxError{Offset: i, Err: fmt.Errorf("invalid character %s %s", quoteInvalidByte(c.src[i]), context)}
	return -1
}

func (c *compactor) failTooDeep(i int) int {
	c.err = &SyntaxError{Offset: i, Err: ErrTooDeep}
	return -1
}

// quoteInvalidByte formats a byte as encoding/json does.
func quoteInvalidByte(b byte) string {
	switch b {
	case '\'':
		return `'\''`
	case '"':
		return `'"'`
	}

	text := strconv.Quote(string(rune(b)))
	return "'" + text[1:len(text)-1] + "'"
}

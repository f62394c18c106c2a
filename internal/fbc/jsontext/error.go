package jsontext

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrTruncated says that the text ends within a value.
var ErrTruncated = errors.New("unexpected end of JSON input")

// ErrTooDeep says that objects and lists are nested deeper than allowed.
var ErrTooDeep = errors.New("is nested too deep")

var errNoString = errors.New("is not one JSON string")

// SyntaxError says that a text is not JSON.
type SyntaxError struct {
	// Offset is the index of the first byte that does not fit, or the length of the text
	// when it ends too early.
	Offset int
	// Err is what is wrong: ErrTruncated, ErrTooDeep or an error in the words of
	// encoding/json.
	Err error
}

func (e *SyntaxError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *SyntaxError) Unwrap() error { return e.Err }

// fail notes an error at an index, where the text ends or has a byte that does not fit
// into what is being read.
func (c *compactor) fail(i int, context string) int {
	if i >= len(c.src) {
		c.err = &SyntaxError{Offset: len(c.src), Err: ErrTruncated}
		return -1
	}
	c.err = &SyntaxError{Offset: i, Err: fmt.Errorf("invalid character %s %s", quoteByte(c.src[i]), context)}
	return -1
}

func (c *compactor) tooDeep(i int) int {
	c.err = &SyntaxError{Offset: i, Err: ErrTooDeep}
	return -1
}

// quoteByte names a byte as encoding/json does.
func quoteByte(b byte) string {
	switch b {
	case '\'':
		return `'\''`
	case '"':
		return `'"'`
	}

	text := strconv.Quote(string(rune(b)))
	return "'" + text[1:len(text)-1] + "'"
}

package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// StatusError is an answer that is not the one that was asked for.
type StatusError struct {
	// Status of the answer.
	Status int
	// Code and Message are the first error that the answer tells of in the form that the
	// protocol asks for, such as MANIFEST_UNKNOWN. Empty: it told of none.
	Code, Message string
	// Pause is how long the registry asked to be left alone. Zero: it did not.
	Pause time.Duration

	what string // what was asked for
}

// Error implements error.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: the registry answered %d %s", e.what, e.Status, http.StatusText(e.Status))
	switch {
	case e.Code != "" && e.Message != "":
		text += fmt.Sprintf(" (%s: %s)", e.Code, e.Message)
	case e.Code != "" || e.Message != "":
		text += fmt.Sprintf(" (%s)", e.Code+e.Message)
	}

	if e.Pause > 0 {
		text += fmt.Sprintf(", and asks to be left alone for %s", e.Pause.Round(time.Second))
	}
	return text
}

// PausedError says that a registry asked to be left alone, so that it was not asked.
type PausedError struct {
	// Host is the registry.
	Host string
	// Left is how long the pause still is.
	Left time.Duration
}

// Error implements error.
func (e *PausedError) Error() string {
	return fmt.Sprintf("the registry %s answered 429 or 503 before, and asked to be left alone for another %s", e.Host, e.Left.Round(time.Second))
}

// LoginError says that a password is not sent where the registry asks for it.
type LoginError struct{ text string }

// Error implements error.
func (e *LoginError) Error() string { return e.text }

// RedirectError says that a registry redirects on and on.
type RedirectError struct{}

// Error implements error.
func (*RedirectError) Error() string {
	return fmt.Sprintf("the registry redirects more than %d times", maxRedirects)
}

// TooLargeError says that an answer is longer than what is read.
type TooLargeError struct {
	// What is too long.
	What string
	// Limit in bytes.
	Limit int64
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s has more than %d bytes", e.What, e.Limit)
}

// Bounds of what is read of an answer that is not the one asked for.
const (
	maxErrorBody = 64 << 10
	maxErrorText = 256
)

// statusError reads what an unexpected answer says, and closes it.
func statusError(resp *http.Response, what string, now time.Time) *StatusError {
	defer func() { _ = resp.Body.Close() }() // It was only read.
	e := &StatusError{Status: resp.StatusCode, what: what}
	e.Pause, _ = retryAfter(resp.Header, now)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	var told struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
		Details string `json:"details"` // an irregular form, known from docker.io
	}

	if json.Unmarshal(body, &told) == nil {
		e.Message = told.Details
		if len(told.Errors) > 0 {
			e.Code, e.Message = told.Errors[0].Code, told.Errors[0].Message
		}
	}

	e.Code, e.Message = shorten(e.Code), shorten(e.Message)
	return e
}

// shorten makes a text of a registry one line of bounded length.
func shorten(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return text
}

// readAtMost reads an answer of bounded length.
func readAtMost(r io.Reader, limit int64, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, &TooLargeError{What: what, Limit: limit}
	}
	return data, err
}

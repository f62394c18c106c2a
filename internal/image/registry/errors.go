package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// StatusError is a response with an unexpected status.
type StatusError struct {
	// Status is the HTTP status of the response.
	Status int
	// Code and Message are from the first error in the body, in the format of the protocol,
	// such as MANIFEST_UNKNOWN. They are empty when the body has none.
	Code, Message string
	// Pause is the pause that the registry requested, or zero.
	Pause time.Duration

	operation string // what the request was for
}

// Error implements error.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: the registry answered %d %s", e.operation, e.Status, http.StatusText(e.Status))
	switch {
	case e.Code != "" && e.Message != "":
		text += fmt.Sprintf(" (%s: %s)", e.Code, e.Message)
	case e.Code != "" || e.Message != "":
		text += fmt.Sprintf(" (%s)", e.Code+e.Message)
	}

	if e.Pause > 0 {
		text += fmt.Sprintf(", and asks for a pause of %s", e.Pause.Round(time.Second))
	}
	return text
}

// PausedError is returned when no request was sent, because the registry requested a pause.
type PausedError struct {
	// Host is the registry.
	Host string
	// Left is the rest of the pause.
	Left time.Duration
}

// Error implements error.
func (e *PausedError) Error() string {
	return fmt.Sprintf("the registry %s answered 429 or 503 before, and asked for a pause that lasts another %s", e.Host, e.Left.Round(time.Second))
}

// LoginError is returned when the registry requests a login in a way that would disclose
// it.
type LoginError struct{ text string }

// Error implements error.
func (e *LoginError) Error() string { return e.text }

// RedirectError is returned when a registry redirects too often.
type RedirectError struct{}

// Error implements error.
func (*RedirectError) Error() string {
	return fmt.Sprintf("the registry redirects more than %d times", maxRedirects)
}

// TooLargeError is returned when a response is larger than its limit.
type TooLargeError struct {
	// What names the response.
	What string
	// Limit is in bytes.
	Limit int64
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s has more than %d bytes", e.What, e.Limit)
}

// Limits of an unexpected response.
const (
	maxErrorBodyBytes = 64 << 10
	maxErrorTextBytes = 256
)

// newStatusError returns the error for an unexpected response, and closes the response.
func newStatusError(resp *http.Response, what string, now time.Time) *StatusError {
	defer func() { _ = resp.Body.Close() }() // It was only read.
	e := &StatusError{Status: resp.StatusCode, operation: what}
	e.Pause, _ = parseRetryAfter(resp.Header, now)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBodyBytes))
	var parsed struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
		Details string `json:"details"` // an irregular form, known from docker.io
	}

	if json.Unmarshal(body, &parsed) == nil {
		e.Message = parsed.Details
		if len(parsed.Errors) > 0 {
			e.Code = parsed.Errors[0].Code
			e.Message = parsed.Errors[0].Message
		}
	}

	e.Code = excerpt.Line(e.Code, maxErrorTextBytes)
	e.Message = excerpt.Line(e.Message, maxErrorTextBytes)
	return e
}

// readAtMost reads r to its end. It returns a TooLargeError if there are more than limit
// bytes.
func readAtMost(r io.Reader, limit int64, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, &TooLargeError{What: what, Limit: limit}
	}
	return data, err
}

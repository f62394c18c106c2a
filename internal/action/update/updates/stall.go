package updates

import (
	"context"
	"fmt"
	"io"
	"time"
)

// stallError reports that no data arrived for a time.
type stallError struct{ timeout time.Duration }

// Error implements error.
func (e *stallError) Error() string {
	return fmt.Sprintf("the update service sent nothing for %s", e.timeout)
}

// stallWatch cancels a request if no data arrives for a time.
type stallWatch struct {
	timeout time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
}

// watchStall returns a context that is canceled when no data arrives for the timeout.
// Readers that are returned by wrapReader restart it.
func watchStall(ctx context.Context, after time.Duration) (context.Context, *stallWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stallWatch{timeout: after, cancel: cancel}
	s.timer = time.AfterFunc(after, func() { cancel(&stallError{after}) })
	return ctx, s
}

// stopWatching ends the watch and releases its context.
func (s *stallWatch) stopWatching() {
	s.timer.Stop()
	s.cancel(nil)
}

// wrapReader returns a reader that restarts the timeout with each read.
func (s *stallWatch) wrapReader(r io.Reader) io.Reader {
	s.timer.Reset(s.timeout)
	return stallReader{r, s}
}

// explainError returns the stall as the error if it caused err, and otherwise err.
func (s *stallWatch) explainError(ctx context.Context, err error) error {
	if cause, stalled := context.Cause(ctx).(*stallError); stalled { //nolint:errorlint // It is set above and not wrapped.
		return cause
	}
	return err
}

// stallReader restarts the timeout of a watch with each read.
type stallReader struct {
	io.Reader
	stall *stallWatch
}

// Read implements io.Reader.
func (r stallReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.stall.timer.Reset(r.stall.timeout)
	}
	return n, err
}

package updates

import (
	"context"
	"fmt"
	"io"
	"time"
)

// stallError reports that nothing of an answer arrived any more.
type stallError struct{ after time.Duration }

// Error implements error.
func (e *stallError) Error() string {
	return fmt.Sprintf("the update service sent nothing for %s", e.after)
}

// stall ends a request of which nothing arrives for a time.
type stall struct {
	after  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// watchStall returns a context that ends when reader and stop are not called for a time.
func watchStall(ctx context.Context, after time.Duration) (context.Context, *stall) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stall{after: after, cancel: cancel}
	s.timer = time.AfterFunc(after, func() { cancel(&stallError{after}) })
	return ctx, s
}

// stop ends the watch.
func (s *stall) stop() {
	s.timer.Stop()
	s.cancel(nil)
}

// reader returns a reader of an answer that gives each read its time.
func (s *stall) reader(r io.Reader) io.Reader {
	s.timer.Reset(s.after)
	return stallReader{r, s}
}

// explain returns the cause of an error if the stall was it, and otherwise the error.
func (s *stall) explain(ctx context.Context, err error) error {
	if cause, stalled := context.Cause(ctx).(*stallError); stalled { //nolint:errorlint // It is set above and not wrapped.
		return cause
	}
	return err
}

type stallReader struct {
	io.Reader
	stall *stall
}

// Read implements io.Reader.
func (r stallReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.stall.timer.Reset(r.stall.after)
	}
	return n, err
}

package fbc

import (
	"errors"
	"sync"
)

// sequence runs functions at once and takes their results in the order in which they
// were submitted.
type sequence[R any] struct {
	// ordered has a channel for each result that was not taken.
	ordered chan chan result[R]
	stop    chan struct{}
	running sync.WaitGroup
}

type result[R any] struct {
	value R
	// returned says that there is a value, and panicked what the function panicked with.
	returned bool
	panicked any
}

// errStopped ends what is done for a consumer that wants no more.
var errStopped = errors.New("stopped")

// errExited says that a function has ended its goroutine.
var errExited = errors.New("the function that reads blobs did not return")

// inOrder runs a producer, which submits functions, and passes their results to consume
// in that order. At most so many results are kept ahead of the consumer. It ends with the
// producer's error, after all results, or with the first of the consumer, after all that
// was started is over. Panics come up in the caller.
func inOrder[R any](ahead int, produce func(*sequence[R]) error, consume func(R) error) error {
	s := &sequence[R]{ordered: make(chan chan result[R], ahead), stop: make(chan struct{})}
	defer s.running.Wait()
	defer close(s.stop)
	last := result[error]{}
	s.running.Go(func() {
		defer close(s.ordered)
		defer func() { last.panicked = recover() }()
		last.value = produce(s)
		last.returned = true
	})

	for done := range s.ordered {
		value, err := (<-done).get()
		if err == nil {
			err = consume(value)
		}
		if err != nil {
			return err
		}
	}

	produced, err := last.get()
	return errors.Join(err, produced)
}

// get returns the value, or ends as the function did.
func (r result[R]) get() (R, error) {
	if r.panicked != nil {
		panic(r.panicked)
	}
	if !r.returned {
		return r.value, errExited
	}
	return r.value, nil
}

// submit starts a function. It gives errStopped when nobody wants its result, and does
// not start it then.
func (s *sequence[R]) submit(work func() R) error {
	done := make(chan result[R], 1)
	select {
	case s.ordered <- done:
	case <-s.stop:
		return errStopped
	}

	s.running.Go(func() {
		var r result[R]
		defer func() {
			r.panicked = recover()
			done <- r
		}()
		r.value = work()
		r.returned = true
	})

	return nil
}

// stopped reports whether nobody wants further results.
func (s *sequence[R]) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

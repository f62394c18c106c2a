package fbc

import (
	"errors"
	"sync"
)

// orderedRunner runs tasks concurrently and delivers their results in the order of submission.
type orderedRunner[R any] struct {
	// results has a channel for each result that was not consumed yet.
	results chan chan taskResult[R]
	stop    chan struct{}
	running sync.WaitGroup
}

type taskResult[R any] struct {
	value R
	// returned is set if the task returned. panicked is the value that it panicked with.
	returned bool
	panicked any
}

// errStopped ends the work for a consumer that has stopped.
var errStopped = errors.New("stopped")

// errGoroutineExited is returned if a task ended its goroutine.
var errGoroutineExited = errors.New("the function that reads blobs did not return")

// runTasksInOrder runs a producer, which submits tasks, and passes their results to consume in the
// order of submission. At most ahead results are buffered. It returns the error of the producer
// after all results, or the first error of consume. It returns after all goroutines have ended.
// Panics are raised in the caller.
func runTasksInOrder[R any](ahead int, produce func(*orderedRunner[R]) error, consume func(R) error) error {
	o := &orderedRunner[R]{results: make(chan chan taskResult[R], ahead), stop: make(chan struct{})}
	defer o.running.Wait()
	defer close(o.stop)
	last := taskResult[error]{}
	o.running.Go(func() {
		defer close(o.results)
		defer func() { last.panicked = recover() }()
		last.value = produce(o)
		last.returned = true
	})

	for done := range o.results {
		value, err := (<-done).valueOrPanic()
		if err == nil {
			err = consume(value)
		}
		if err != nil {
			return err
		}
	}

	produced, err := last.valueOrPanic()
	return errors.Join(err, produced)
}

// valueOrPanic returns the value, or panics with the value that the task panicked with.
func (r taskResult[R]) valueOrPanic() (R, error) {
	if r.panicked != nil {
		panic(r.panicked)
	}
	if !r.returned {
		return r.value, errGoroutineExited
	}
	return r.value, nil
}

// submitTask starts a task. If the consumer has stopped, it returns errStopped and does not start
// the task.
func (o *orderedRunner[R]) submitTask(work func() R) error {
	done := make(chan taskResult[R], 1)
	select {
	case o.results <- done:
	case <-o.stop:
		return errStopped
	}

	o.running.Go(func() {
		var r taskResult[R]
		defer func() {
			r.panicked = recover()
			done <- r
		}()
		r.value = work()
		r.returned = true
	})

	return nil
}

func (o *orderedRunner[R]) isConsumerStopped() bool {
	select {
	case <-o.stop:
		return true
	default:
		return false
	}
}

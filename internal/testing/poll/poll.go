// Package poll waits in tests until something holds.
//
// It is only for tests. No package of the product imports it.
package poll

import (
	"errors"
	"testing"
	"time"
)

// Timeout limits every wait of a test. No test is about time, so it is far above what a busy
// machine needs.
const Timeout = 5 * time.Minute

// Interval is the interval between the first checks of Eventually. It grows to a tenth of the time waited, at most to
// maxInterval: a check that requests objects many times keeps the machine busy, on which the test waits.
const (
	Interval    = 20 * time.Millisecond
	maxInterval = 200 * time.Millisecond
)

// EventuallyTrue waits until a condition holds. If it never does, the test fails with the text of
// describe, unless that is nil.
func EventuallyTrue(t testing.TB, what string, holds func() bool, describe func() string) {
	t.Helper()
	Eventually(t, what, func() error {
		switch {
		case holds():
			return nil
		case describe == nil:
			return errors.New("the condition does not hold")
		default:
			return errors.New(describe())
		}
	})
}

// Eventually waits until check returns nil. The test fails with the last error if it never does. It also waits in
// cleanups, where the context of the test is done.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	began := time.Now()
	for {
		err := check()
		waited := time.Since(began)
		switch {
		case err == nil:
			return
		case waited > Timeout:
			t.Fatalf("%s: within %s: %v", what, Timeout, err)
		}

		time.Sleep(min(max(waited/10, Interval), maxInterval))
	}
}

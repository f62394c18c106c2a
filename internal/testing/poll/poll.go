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

// Interval is the interval between two checks of Eventually.
const Interval = 20 * time.Millisecond

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
	deadline := time.Now().Add(Timeout)
	for {
		err := check()
		switch {
		case err == nil:
			return
		case time.Now().After(deadline):
			t.Fatalf("%s: within %s: %v", what, Timeout, err)
		}

		time.Sleep(Interval)
	}
}

// Package poll waits in tests until something holds.
//
// It is only for tests. No package of the product imports it.
package poll

import (
	"testing"
	"time"
)

// Timeout limits every wait of a test. No test is about time, so it is far above what a busy
// machine needs.
const Timeout = 5 * time.Minute

const (
	// Interval is the interval between the first checks of Eventually.
	Interval = 20 * time.Millisecond
	// maxInterval is the longest interval between two checks.
	maxInterval = 200 * time.Millisecond
)

// EventuallyTrue waits until a condition holds. If it never does, the test fails with the text of
// describe, unless that is nil.
func EventuallyTrue(t testing.TB, what string, holds func() bool, describe func() string) {
	t.Helper()
	if describe == nil {
		describe = func() string { return "the condition does not hold" }
	}

	Eventually(t, what, func() error {
		if holds() {
			return nil
		}
		return unfulfilled{describe}
	})
}

// unfulfilled is the error of a condition that does not hold. It describes the state only when it is printed: most checks of
// a state fail, and the description takes more requests than the check.
type unfulfilled struct{ describe func() string }

func (u unfulfilled) Error() string { return u.describe() }

// Eventually waits until check returns nil. The test fails with the last error if it never does. It also waits in
// cleanups, where the context of the test is done. The interval between two checks grows with the time that it has waited, so
// that the checks of many tests at once use little CPU time.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	start := time.Now()
	for {
		err := check()
		elapsed := time.Since(start)
		switch {
		case err == nil:
			return
		case elapsed > Timeout:
			t.Fatalf("%s: within %s: %v", what, Timeout, err)
		}

		time.Sleep(min(max(Interval, elapsed/10), maxInterval))
	}
}

// Package steps is how journeys go: a line is printed for each step that was done, and what a
// cluster does by itself is waited for. Demos and end-to-end tests share it.
package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// Do does one step and prints its line: how long it took, what it was, and what came of it.
func Do(ctx context.Context, what string, do func(context.Context) (string, error)) error {
	began := time.Now()
	result, err := do(ctx)
	took := time.Since(began).Seconds()
	if err != nil {
		return fmt.Errorf("after %.1f s, %q failed: %w", took, what, err)
	}

	fmt.Printf("%6.2f s  %s\n", took, what)
	for line := range strings.SplitSeq(strings.TrimRight(result, "\n"), "\n") {
		if line != "" {
			fmt.Printf("          %s\n", line)
		}
	}

	return nil
}

// pause is how long to wait before a state is looked at again.
const pause = 50 * time.Millisecond

// Eventually looks until check gives no error, for as long as limit. A process that has ended
// by itself ends the wait: nothing comes of it any more.
func Eventually(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var before error
	for {
		err := check(ctx)
		if ctx.Err() != nil && before != nil {
			err = before // What was interrupted says nothing.
		}

		before = err
		var ended *cluster.EndedError
		if err == nil || errors.As(err, &ended) {
			return err
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("within %s: %w", limit, err)
		case <-time.After(pause):
		}
	}
}

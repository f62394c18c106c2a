// Package steps runs the steps of demos and end-to-end tests. It prints a line for each step and
// waits for the results of controllers.
package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// Do runs one step and prints its duration, its description and its result.
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

// pollInterval is the time between two checks of a state.
const pollInterval = 50 * time.Millisecond

// Eventually calls check until it returns nil, for at most limit. A *cluster.EndedError ends the
// wait early, as the state cannot change any more.
func Eventually(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var before error
	for {
		err := check(ctx)
		if ctx.Err() != nil && before != nil {
			err = before // The error of an interrupted check is not useful.
		}

		before = err
		var ended *cluster.EndedError
		if err == nil || errors.As(err, &ended) {
			return err
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("within %s: %w", limit, err)
		case <-time.After(pollInterval):
		}
	}
}

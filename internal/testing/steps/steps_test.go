package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

func TestEventually(t *testing.T) {
	checks := 0
	err := Eventually(t.Context(), time.Minute, func(context.Context) error {
		if checks++; checks < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || checks != 3 {
		t.Errorf("got %d checks and error %v", checks, err)
	}

	err = Eventually(t.Context(), 0, func(context.Context) error { return errors.New("never") })
	if err == nil || !strings.Contains(err.Error(), "within 0s: never") {
		t.Errorf("a state that is never reached: got error %v", err)
	}

	gone := &cluster.EndedError{Name: "operator"}
	if err := Eventually(t.Context(), time.Minute, func(context.Context) error { return fmt.Errorf("checking: %w", gone) }); !errors.Is(err, gone) {
		t.Errorf("a process that ended: got error %v", err)
	}
}

func TestDo(t *testing.T) {
	err := Do(t.Context(), "Nothing is done", func(context.Context) (string, error) { return "", errors.New("no") })
	if err == nil || !strings.HasSuffix(err.Error(), `"Nothing is done" failed: no`) {
		t.Errorf("got %v", err)
	}
}

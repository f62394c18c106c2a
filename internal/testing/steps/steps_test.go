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
	looks := 0
	err := Eventually(t.Context(), time.Minute, func(context.Context) error {
		if looks++; looks < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || looks != 3 {
		t.Errorf("%d looks: %v", looks, err)
	}

	err = Eventually(t.Context(), 0, func(context.Context) error { return errors.New("never") })
	if err == nil || !strings.Contains(err.Error(), "within 0s: never") {
		t.Errorf("what never comes: %v", err)
	}

	gone := &cluster.EndedError{Name: "operator"}
	if err := Eventually(t.Context(), time.Minute, func(context.Context) error { return fmt.Errorf("looking: %w", gone) }); !errors.Is(err, gone) {
		t.Errorf("a process that ended: %v", err)
	}
}

func TestDo(t *testing.T) {
	err := Do(t.Context(), "Nothing is done", func(context.Context) (string, error) { return "", errors.New("no") })
	if err == nil || !strings.HasSuffix(err.Error(), `"Nothing is done" failed: no`) {
		t.Errorf("got %v", err)
	}
}

package migration

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// RefusedError is the error for a migration that findings prevent.
type RefusedError struct {
	// Plan has the findings.
	Plan *plan.Plan
}

// Error implements error.
func (e *RefusedError) Error() string {
	count := 0
	for _, finding := range e.Plan.Findings {
		if finding.Blocks() {
			count++
		}
	}
	if count == 1 {
		return fmt.Sprintf("subscription %s: 1 finding prevents the migration", e.Plan.Subscription)
	}
	return fmt.Sprintf("subscription %s: %d findings prevent the migration", e.Plan.Subscription, count)
}

// newServerError returns an error about an object with advice for common cases. It returns nil for
// nil, and errors that have advice already unchanged.
func newServerError(object string, err error) error {
	var known *report.Error
	if err == nil || errors.As(err, &known) {
		return err
	}

	e := &report.Error{Object: object, Err: err}
	switch {
	case meta.IsNoMatchError(err):
		e.Advice = "check that OLM Classic and Mainstay are both installed"
	case apierrors.IsForbidden(err):
		e.Advice = "ask an administrator of the cluster for the permission"
	case apierrors.IsNotFound(err):
		e.Advice = "check the name and the namespace"
	case apierrors.IsConflict(err):
		e.Advice = "another client changed an object at the same time: run the command again"
	}

	return e
}

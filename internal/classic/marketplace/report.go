package marketplace

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
)

const (
	// failureTolerance is how long reconciliations may fail before that is reported.
	failureTolerance = time.Minute

	reasonManifests = "DefaultCatalogsInvalid"
	reasonFailing   = "ReconciliationFailing"
)

// resultRecorder records the results of reconciliations.
type resultRecorder struct {
	clock   clock.PassiveClock
	changes chan event.GenericEvent

	mutex sync.Mutex
	state resultState
}

// resultState summarizes the results of reconciliations.
type resultState struct {
	// hasSucceeded is set if a reconciliation has succeeded since the program started.
	hasSucceeded bool
	// failingSince is when reconciliations started to fail, or zero if the last one succeeded.
	// err is the error of the last one.
	failingSince time.Time
	err          error
}

func newResultRecorder(c clock.PassiveClock) *resultRecorder {
	return &resultRecorder{clock: c, changes: make(chan event.GenericEvent, 1)}
}

// recordResult records the result of a reconciliation.
func (p *resultRecorder) recordResult(err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	before := p.state
	p.state.err = err
	switch {
	case err == nil:
		p.state.hasSucceeded, p.state.failingSince = true, time.Time{}
	case p.state.failingSince.IsZero():
		p.state.failingSince = p.clock.Now()
	}

	if p.state.hasSucceeded == before.hasSucceeded && p.state.failingSince.Equal(before.failingSince) {
		return
	}

	select {
	case p.changes <- event.GenericEvent{Object: &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: configv1.OperatorHubName}}}:
	default: // The pending event covers this change.
	}
}

func (p *resultRecorder) currentState() resultState {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.state
}

// newReportFunc returns the function that reports the ClusterOperator "marketplace".
func newReportFunc(o Options, p *resultRecorder, problems []error) func(context.Context, *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
	return func(context.Context, *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
		s := p.currentState()
		now := o.Clock.Now()
		component := componentReport{release: o.reportedVersion(), namespace: o.Namespace, problems: problems, hasSucceeded: s.hasSucceeded, now: metav1.NewTime(now)}
		var requeueAfter time.Duration
		if !s.failingSince.IsZero() {
			if requeueAfter = s.failingSince.Add(failureTolerance).Sub(now); requeueAfter <= 0 {
				requeueAfter, component.failing = 0, s.err
			}
		}

		if !component.hasSucceeded && component.failing == nil {
			return nil, requeueAfter, nil // There is no result yet.
		}

		return component.applyToStatus, requeueAfter, nil
	}
}

// componentReport is the content of the ClusterOperator.
type componentReport struct {
	release, namespace string
	// problems are the errors of manifests that cannot be used.
	problems []error
	// failing is the error of reconciliations that have failed for longer than
	// failureTolerance.
	failing      error
	hasSucceeded bool
	now          metav1.Time
}

func (r *componentReport) applyToStatus(status *configv1.ClusterOperatorStatus) {
	set := func(conditionType string, is metav1.ConditionStatus, reason, message string) {
		operatorstatus.SetCondition(&status.Conditions, configv1.ClusterOperatorStatusCondition{Type: conditionType, Status: is, Reason: reason, Message: message}, r.now)
	}
	if r.hasSucceeded {
		status.Versions = []configv1.OperandVersion{{Name: operatorstatus.VersionName, Version: r.release}}
		set(configv1.OperatorAvailable, metav1.ConditionTrue, configv1.ReasonAsExpected, "The default catalogs match OperatorHub \"cluster\"")
		set(configv1.OperatorProgressing, metav1.ConditionFalse, configv1.ReasonAsExpected, "Running version "+r.release)
	} else {
		set(configv1.OperatorAvailable, metav1.ConditionFalse, reasonFailing, "The default catalogs cannot be reconciled: "+r.failing.Error())
		set(configv1.OperatorProgressing, metav1.ConditionTrue, reasonFailing, "Working toward version "+r.release)
	}

	switch {
	case r.failing != nil:
		set(configv1.OperatorDegraded, metav1.ConditionTrue, reasonFailing, "Default catalogs cannot be written: "+r.failing.Error())
	case len(r.problems) > 0:
		set(configv1.OperatorDegraded, metav1.ConditionTrue, reasonManifests,
			"Manifests of default catalogs cannot be used: "+strings.ReplaceAll(errors.Join(r.problems...).Error(), "\n", "; "))
	default:
		set(configv1.OperatorDegraded, metav1.ConditionFalse, configv1.ReasonAsExpected, "Every default catalog can be used")
	}

	set(configv1.OperatorUpgradeable, metav1.ConditionTrue, configv1.ReasonAsExpected, "Default catalogs do not block updates of the cluster")
	status.RelatedObjects = []configv1.ObjectReference{
		{Resource: "namespaces", Name: r.namespace},
		{Group: configv1.GroupVersion.Group, Resource: "operatorhubs", Name: configv1.OperatorHubName},
		{Group: v1alpha1.GroupVersion.Group, Resource: "catalogsources", Namespace: r.namespace},
	}
}

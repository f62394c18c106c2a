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
	// failureTolerance is how long passes may fail until that is reported.
	failureTolerance = time.Minute

	reasonManifests = "DefaultCatalogsInvalid"
	reasonFailing   = "ReconciliationFailing"
)

// resultRecorder remembers how the passes of the keeper end.
type resultRecorder struct {
	clock clock.PassiveClock
	changes  chan event.GenericEvent

	mutex sync.Mutex
	state resultState
}

// resultState is how the last passes ended.
type resultState struct {
	// hasSucceeded reports whether one ever did since the program began.
	hasSucceeded bool
	// failingSince is when they began to fail; zero when the last one did not. err is why the last one did.
	failingSince time.Time
	err   error
}

func newResultRecorder(c clock.PassiveClock) *resultRecorder {
	return &resultRecorder{clock: c, changes: make(chan event.GenericEvent, 1)}
}

// record remembers a pass.
func (p *resultRecorder) record(err error) {
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
	default: // The reporter is yet to look.
	}
}

func (p *resultRecorder) currentState() resultState {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.state
}

// newReportFunc tells what ClusterOperator "marketplace" is to say.
func newReportFunc(o Options, p *resultRecorder, problems []error) func(context.Context, *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
	return func(context.Context, *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
		s := p.currentState()
		now := o.Clock.Now()
		said := componentReport{release: o.reportedVersion(), namespace: o.Namespace, problems: problems, hasSucceeded: s.hasSucceeded, now: metav1.NewTime(now)}
		var again time.Duration
		if !s.failingSince.IsZero() {
			if again = s.failingSince.Add(failureTolerance).Sub(now); again <= 0 {
				again, said.failing = 0, s.err
			}
		}

		if !said.hasSucceeded && said.failing == nil {
			return nil, again, nil // Nothing is known yet.
		}

		return said.applyTo, again, nil
	}
}

// componentReport is what the ClusterOperator says.
type componentReport struct {
	release, namespace string
	// problems are manifests that cannot be used.
	problems []error
	// failing is why passes have been failing for longer than they may.
	failing      error
	hasSucceeded bool
	now          metav1.Time
}

func (r *componentReport) applyTo(status *configv1.ClusterOperatorStatus) {
	set := func(conditionType string, is metav1.ConditionStatus, reason, message string) {
		operatorstatus.Set(&status.Conditions, configv1.ClusterOperatorStatusCondition{Type: conditionType, Status: is, Reason: reason, Message: message}, r.now)
	}
	if r.hasSucceeded {
		status.Versions = []configv1.OperandVersion{{Name: operatorstatus.VersionName, Version: r.release}}
		set(configv1.OperatorAvailable, metav1.ConditionTrue, configv1.ReasonAsExpected, "The default catalogs are kept as OperatorHub \"cluster\" wants them")
		set(configv1.OperatorProgressing, metav1.ConditionFalse, configv1.ReasonAsExpected, "Running version "+r.release)
	} else {
		set(configv1.OperatorAvailable, metav1.ConditionFalse, reasonFailing, "The default catalogs are not kept: "+r.failing.Error())
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

	set(configv1.OperatorUpgradeable, metav1.ConditionTrue, configv1.ReasonAsExpected, "No default catalog stands against an update of the cluster")
	status.RelatedObjects = []configv1.ObjectReference{
		{Resource: "namespaces", Name: r.namespace},
		{Group: configv1.GroupVersion.Group, Resource: "operatorhubs", Name: configv1.OperatorHubName},
		{Group: v1alpha1.GroupVersion.Group, Resource: "catalogsources", Namespace: r.namespace},
	}
}

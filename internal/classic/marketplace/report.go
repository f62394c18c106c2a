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
	// grace is how long passes may fail until that is reported.
	grace = time.Minute

	reasonManifests = "DefaultCatalogsInvalid"
	reasonFailing   = "ReconciliationFailing"
)

// passes remembers how the passes of the keeper end.
type passes struct {
	clock clock.PassiveClock
	news  chan event.GenericEvent

	mutex sync.Mutex
	state state
}

// state is how the last passes ended.
type state struct {
	// hasSucceeded reports whether one ever did since the program began.
	hasSucceeded bool
	// since is when they began to fail; zero when the last one did not. err is why the last one did.
	since time.Time
	err   error
}

func newPasses(c clock.PassiveClock) *passes {
	return &passes{clock: c, news: make(chan event.GenericEvent, 1)}
}

// ended remembers a pass.
func (p *passes) ended(err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	before := p.state
	p.state.err = err
	switch {
	case err == nil:
		p.state.hasSucceeded, p.state.since = true, time.Time{}
	case p.state.since.IsZero():
		p.state.since = p.clock.Now()
	}

	if p.state.hasSucceeded == before.hasSucceeded && p.state.since.Equal(before.since) {
		return
	}

	select {
	case p.news <- event.GenericEvent{Object: &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: configv1.OperatorHubName}}}:
	default: // The reporter is yet to look.
	}
}

func (p *passes) now() state {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.state
}

// reporting tells what ClusterOperator "marketplace" is to say.
func reporting(o Options, p *passes, problems []error) func(context.Context, *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
	return func(context.Context, *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
		s := p.now()
		now := o.Clock.Now()
		said := report{release: o.version(), namespace: o.Namespace, problems: problems, hasSucceeded: s.hasSucceeded, now: metav1.NewTime(now)}
		var again time.Duration
		if !s.since.IsZero() {
			if again = s.since.Add(grace).Sub(now); again <= 0 {
				again, said.failing = 0, s.err
			}
		}

		if !said.hasSucceeded && said.failing == nil {
			return nil, again, nil // Nothing is known yet.
		}

		return said.fill, again, nil
	}
}

// report is what the ClusterOperator says.
type report struct {
	release, namespace string
	// problems are manifests that cannot be used.
	problems []error
	// failing is why passes have been failing for longer than they may.
	failing      error
	hasSucceeded bool
	now          metav1.Time
}

func (r *report) fill(status *configv1.ClusterOperatorStatus) {
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

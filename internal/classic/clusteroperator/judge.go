package clusteroperator

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
)

// Reasons and messages of conditions. Platforms know the first two reasons.
const (
	reasonIncompatible = "IncompatibleOperatorsInstalled"
	reasonUndetermined = "ErrorCheckingOperatorCompatibility"
	reasonNotUp        = "UpdateNotInEffect"
	messageNotUp       = "Waiting for updates to take effect"
	messageWorks       = "The controllers work"
	messageUpgradeable = "No installed ClusterServiceVersion declares that it does not support the next minor version of the cluster"
	messageNotBlocking = "The component does not block updates of the cluster"
)

// judgeTimeout is how long a component waits for enough syncs before its health is evaluated.
// In a cluster with nothing to reconcile the component is then up, because nothing fails.
const judgeTimeout = 30 * time.Second

// health is the health of a component according to its syncs.
type health int

const (
	// healthUnknown means that the status is not written. A status from an earlier process
	// stays.
	healthUnknown health = iota
	healthUp
	healthDown
)

// syncThresholds are the minimum counts for an evaluation before judgeTimeout.
type syncThresholds struct{ passes, successes int }

// evaluateHealth returns the health of a component.
func (t syncCounts) evaluateHealth(r syncThresholds, isTimedOut bool) health {
	isEnough := t.passes >= r.passes && t.successes >= r.successes
	switch {
	case !isEnough && !isTimedOut:
		return healthUnknown
	case t.passes == 0 || t.recentSuccesses > 0:
		return healthUp
	}

	return healthDown
}

// healthEvaluator evaluates the health of a component repeatedly.
type healthEvaluator struct {
	thresholds syncThresholds
	syncs      *Syncs
	clock      clock.PassiveClock
	startedAt  time.Time
}

// currentHealth returns the health of the component, and how long to wait if it can still
// change without syncs.
func (j *healthEvaluator) currentHealth() (health, time.Duration) {
	now := j.clock.Now()
	if j.startedAt.IsZero() {
		j.startedAt = now
	}

	remaining := j.startedAt.Add(judgeTimeout).Sub(now)
	v := j.syncs.currentCounts().evaluateHealth(j.thresholds, remaining <= 0)
	if v == healthUp || remaining <= 0 {
		return v, 0
	}

	return v, remaining
}

// componentReport is the content of the ClusterOperator of a component with reconcilers.
type componentReport struct {
	// name is the name of the ClusterOperator. Its status also uses it for the version of the
	// program.
	name string
	// release is the version of the platform to which the program belongs.
	release string
	// program is the version of the program.
	program string
	isUp    bool
	// upgradeable is the condition Upgradeable if the component is up.
	upgradeable    configv1.ClusterOperatorStatusCondition
	relatedObjects []configv1.ObjectReference
	now            metav1.Time
}

// applyToStatus writes the report into a status, which holds the previous one.
func (r *componentReport) applyToStatus(status *configv1.ClusterOperatorStatus) {
	set := func(conditionType string, is bool, reason, message string) {
		c := configv1.ClusterOperatorStatusCondition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}
		if is {
			c.Status = metav1.ConditionTrue
		}
		operatorstatus.SetCondition(&status.Conditions, c, r.now)
	}

	status.RelatedObjects = r.relatedObjects
	if !r.isUp {
		set(configv1.OperatorProgressing, true, reasonNotUp, "Waiting to see update "+r.program+" succeed")
		set(configv1.OperatorAvailable, false, reasonNotUp, "No reconciliation succeeds; see the log of the program for the reason")
		set(configv1.OperatorDegraded, true, reasonNotUp, messageNotUp)
		set(configv1.OperatorUpgradeable, false, reasonNotUp, messageNotUp)

		return
	}

	status.Versions = []configv1.OperandVersion{{Name: operatorstatus.VersionName, Version: r.release}, {Name: r.name, Version: r.program}}
	set(configv1.OperatorProgressing, false, configv1.ReasonAsExpected, "Deployed "+r.program)
	set(configv1.OperatorAvailable, true, configv1.ReasonAsExpected, messageWorks)
	set(configv1.OperatorDegraded, false, configv1.ReasonAsExpected, messageWorks)
	operatorstatus.SetCondition(&status.Conditions, r.upgradeable, r.now)
}

package clusteroperator

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
)

// Reasons of conditions. The first two are those that platforms know.
const (
	reasonIncompatible    = "IncompatibleOperatorsInstalled"
	reasonUndetermined    = "ErrorCheckingOperatorCompatibility"
	reasonNotUp           = "UpdateNotInEffect"
	messageNotUp          = "Waiting for updates to take effect"
	messageWorks          = "The controllers work"
	messageUpgradeable    = "Every installed ClusterServiceVersion works on the next minor version of the cluster, as far as it says"
	messageNothingAgainst = "Nothing of it stands against an update of the cluster"
)

// grace is how long it may take until enough passes were seen to judge by. A cluster with nothing
// to reconcile is judged after it: nothing fails there.
const grace = 30 * time.Second

// verdict is what the passes tell of a component.
type verdict int

const (
	// unknown: nothing is written yet, and what was written before the program began stays.
	unknown verdict = iota
	up
	down
)

// rule says how many passes there must be before a component is judged within its time of grace.
type rule struct{ passes, successes int }

// judge reports whether a component works.
func (t tally) judge(r rule, isGraceOver bool) verdict {
	isEnough := t.passes >= r.passes && t.successes >= r.successes
	switch {
	case !isEnough && !isGraceOver:
		return unknown
	case t.passes == 0 || t.lately > 0:
		return up
	}

	return down
}

// judgement judges a component again and again.
type judgement struct {
	rule  rule
	syncs *Syncs
	clock clock.PassiveClock
	began time.Time
}

// now returns the verdict, and how long to wait for one that is not there yet.
func (j *judgement) now() (verdict, time.Duration) {
	now := j.clock.Now()
	if j.began.IsZero() {
		j.began = now
	}

	left := j.began.Add(grace).Sub(now)
	v := j.syncs.counted().judge(j.rule, left <= 0)
	if v == up || left <= 0 {
		return v, 0
	}

	return v, left
}

// report is what a ClusterOperator says of a component that reconciles.
type report struct {
	// name of the ClusterOperator, by which its status names the version of the program too.
	name string
	// release is the version of the platform that the program belongs to.
	release string
	// program is the version of the program.
	program string
	up      bool
	// upgradeable is what an up component says of updates of the cluster.
	upgradeable configv1.ClusterOperatorStatusCondition
	related     []configv1.ObjectReference
	now         metav1.Time
}

// fill writes the report into a status, which holds the last one.
func (r *report) fill(status *configv1.ClusterOperatorStatus) {
	set := func(conditionType string, is bool, reason, message string) {
		c := configv1.ClusterOperatorStatusCondition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}
		if is {
			c.Status = metav1.ConditionTrue
		}
		operatorstatus.Set(&status.Conditions, c, r.now)
	}

	status.RelatedObjects = r.related
	if !r.up {
		set(configv1.OperatorProgressing, true, reasonNotUp, "Waiting to see update "+r.program+" succeed")
		set(configv1.OperatorAvailable, false, reasonNotUp, "No reconciliation succeeds; the log of the program says why")
		set(configv1.OperatorDegraded, true, reasonNotUp, messageNotUp)
		set(configv1.OperatorUpgradeable, false, reasonNotUp, messageNotUp)

		return
	}

	status.Versions = []configv1.OperandVersion{{Name: operatorstatus.VersionName, Version: r.release}, {Name: r.name, Version: r.program}}
	set(configv1.OperatorProgressing, false, configv1.ReasonAsExpected, "Deployed "+r.program)
	set(configv1.OperatorAvailable, true, configv1.ReasonAsExpected, messageWorks)
	set(configv1.OperatorDegraded, false, configv1.ReasonAsExpected, messageWorks)
	operatorstatus.Set(&status.Conditions, r.upgradeable, r.now)
}

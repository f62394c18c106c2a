package csv

import (
	"errors"
	"fmt"
	"time"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/requirements"
	"github.com/mainstay-dev/mainstay/internal/classic/strategy"
)

const (
	// installTime is how long what was installed may take to become healthy.
	installTime = 5 * time.Minute
	// requirementsTime is after what time requirements that are not met are looked at again. All of
	// them but the version of the API server are watched.
	requirementsTime = time.Minute
	// disruptionTime is the same for an API whose pods are being replaced.
	disruptionTime = 10 * time.Second
)

// Facts are what a decision is made from. Only those that the phase asks for are known.
type Facts struct {
	Now time.Time

	// Replaced is the one that this one replaces; nil when it does not exist. Blocked is why that
	// must not be replaced now.
	Replaced *v1alpha1.ClusterServiceVersion
	Blocked  string
	// Replacement is the one that replaces this one. With FailForward, those that failed may be
	// replaced too, and Last is the end of the chain, NextErr why there is none.
	Replacement *v1alpha1.ClusterServiceVersion
	FailForward bool
	Last        *v1alpha1.ClusterServiceVersion
	NextErr     error

	// Requirements are the judgement about them, RequirementsErr why there is none.
	Requirements    *requirements.Result
	RequirementsErr error
	// Webhooks is why its webhooks cannot be installed.
	Webhooks error
	// CRDOwner is another in the namespace that owns one of its CRDs and is no version of it.
	CRDOwner string

	// NotAdoptable is why an owned APIService cannot be taken, Issues what of all of them is not as
	// it was installed, MustRotate that a certificate must be made anew, at RotateAt at the latest.
	NotAdoptable error
	Issues       []error
	MustRotate   bool
	RotateAt     time.Time

	// Wanted is why its Deployments cannot be computed, Health what is found of them.
	Wanted error
	Health Health
}

// Health is what is found of what was installed.
type Health struct {
	// Deployments is a *strategy.HealthError, nil when all are healthy.
	Deployments error
	// APIsInstalled: the owned APIs are served. APIs is why that is not known, Disrupted the text
	// about an API that comes back by itself.
	APIsInstalled bool
	APIs          error
	Disrupted     string
	// WebhooksInstalled: the webhooks are in place. Webhooks is why that is not known.
	WebhooksInstalled bool
	Webhooks          error
	// Unreachable is that the API server could not answer.
	Unreachable error
}

// decisions has what each phase may come to.
var decisions = map[v1alpha1.ClusterServiceVersionPhase]func(*v1alpha1.ClusterServiceVersion, *Facts) Outcome{
	v1alpha1.CSVPhaseNone:         fresh,
	v1alpha1.CSVPhasePending:      pending,
	v1alpha1.CSVPhaseInstallReady: installReady,
	v1alpha1.CSVPhaseInstalling:   installing,
	v1alpha1.CSVPhaseSucceeded:    succeeded,
	v1alpha1.CSVPhaseFailed:       failed,
	v1alpha1.CSVPhaseReplacing:    replacing,
	v1alpha1.CSVPhaseDeleting:     deleting,
}

// Decide says what a ClusterServiceVersion that its group admits comes to.
func Decide(csv *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	decide, ok := decisions[csv.Status.Phase]
	if !ok {
		return stay()
	}
	return decide(csv, f)
}

func fresh(*v1alpha1.ClusterServiceVersion, *Facts) Outcome {
	return to(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsUnknown, "requirements not yet checked")
}

func pending(_ *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	if f.Replaced != nil && f.Blocked != "" {
		return to(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonOperatorConditionNotUpgradeable, "operator is not upgradeable: "+f.Blocked)
	}
	if f.RequirementsErr != nil {
		return invalid(f.RequirementsErr)
	}

	o := judged(f)
	o.Requirements = f.Requirements.Statuses
	return o
}

// judged is what a pending one with known requirements comes to.
func judged(f *Facts) Outcome {
	switch {
	case !f.Requirements.Met:
		o := to(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet, "one or more requirements couldn't be found")
		o.After = requirementsTime
		return o
	case f.Webhooks != nil:
		return to(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInvalidWebhookDescription, f.Webhooks.Error())
	case f.CRDOwner != "":
		return to(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonOwnerConflict, "conflicting CRD owner in namespace")
	case f.NotAdoptable != nil:
		return to(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonOwnerConflict, "unable to adopt APIService")
	case f.Replaced != nil && f.Replaced.Status.Phase != v1alpha1.CSVPhaseReplacing:
		return stay()
	default:
		return to(v1alpha1.CSVPhaseInstallReady, v1alpha1.CSVReasonRequirementsMet, "all requirements found, attempting install")
	}
}

func installReady(csv *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	if err := strategy.Check(csv); err != nil {
		return invalid(err)
	}
	if wait := pause(&csv.Status, f.Now); wait > 0 {
		return Outcome{After: wait}
	}
	return Outcome{Do: DoInstall}
}

func installing(csv *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	if f.Wanted != nil {
		return reinstall()
	}

	o := health(f, v1alpha1.CSVPhaseInstalling, v1alpha1.CSVReasonInstallWaiting)
	since := csv.Status.LastTransitionTime
	if o.Phase != v1alpha1.CSVPhaseInstalling || since == nil {
		return o
	}

	left := installTime - f.Now.Sub(since.Time)
	if left <= 0 {
		return to(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInstallCheckFailed, "install timeout")
	}

	o.After = left
	return o
}

func succeeded(csv *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	switch {
	case f.Replacement != nil:
		return to(v1alpha1.CSVPhaseReplacing, v1alpha1.CSVReasonBeingReplaced, "being replaced by csv: "+f.Replacement.Name)
	case len(f.Issues) > 0:
		return to(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonAPIServiceResourceIssue, errors.Join(f.Issues...).Error())
	case f.MustRotate:
		return to(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonNeedsCertRotation, "CSV owns resources that require a cert refresh")
	case f.RequirementsErr != nil:
		return invalid(f.RequirementsErr)
	case !f.Requirements.Met:
		o := to(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonRequirementsNotMet, "requirements no longer met")
		o.Requirements = f.Requirements.Statuses
		return o
	case f.Wanted != nil:
		return reinstall()
	}

	o := health(f, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentUnhealthy)
	if o.Phase == csv.Status.Phase && !f.RotateAt.IsZero() {
		o.After = f.RotateAt.Sub(f.Now)
	}
	return o
}

// groupTroubles are the reasons of those that failed for their group, with what is said when that
// admits them.
var groupTroubles = map[string]string{
	v1alpha1.CSVReasonNoTargetNamespaces:                  "InstallModes now support target namespaces",
	v1alpha1.CSVReasonNoOperatorGroup:                     "InstallModes now support target namespaces",
	v1alpha1.CSVReasonTooManyOperatorGroups:               "InstallModes now support target namespaces",
	v1alpha1.CSVReasonUnsupportedOperatorGroup:            "InstallModes now support target namespaces",
	v1alpha1.CSVReasonInvalidInstallModes:                 "InstallModes now support target namespaces",
	v1alpha1.CSVReasonInterOperatorGroupOwnerConflict:     "OperatorGroup no longer intersecting with conflicting owner",
	v1alpha1.CSVReasonCannotModifyStaticOperatorGroupAPIs: "static OperatorGroup and intersecting groups now support providedAPIs",
}

func failed(csv *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	reason := csv.Status.Reason
	if f.FailForward && f.Replacement != nil {
		return to(v1alpha1.CSVPhaseReplacing, v1alpha1.CSVReasonBeingReplaced,
			"Fail Forward is enabled, allowing Failed csv to be replaced by csv: "+f.Replacement.Name)
	}
	if message, ok := groupTroubles[reason]; ok {
		return to(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsUnknown, message)
	}

	switch {
	case f.RequirementsErr != nil && reason == v1alpha1.CSVReasonInvalidStrategy:
		return stay()
	case f.RequirementsErr != nil:
		return invalid(f.RequirementsErr)
	case !f.Requirements.Met:
		o := to(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet, "requirements not met")
		o.Requirements = f.Requirements.Statuses
		return o
	case lasts(csv, f):
		return stay()
	case len(f.Issues) > 0 && f.NotAdoptable != nil:
		return stay()
	case len(f.Issues) > 0:
		return to(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonAPIServiceResourcesNeedReinstall, errors.Join(f.Issues...).Error())
	case f.MustRotate:
		return to(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonNeedsCertRotation, "owned APIServices need cert refresh")
	case f.Wanted != nil:
		return reinstall()
	default:
		return health(f, v1alpha1.CSVPhasePending, v1alpha1.CSVReasonNeedsReinstall)
	}
}

// lasts reports whether one that could not be installed would fail in the same way again.
func lasts(csv *v1alpha1.ClusterServiceVersion, f *Facts) bool {
	switch csv.Status.Reason {
	case v1alpha1.CSVReasonOwnerConflict:
		return f.CRDOwner != "" || f.NotAdoptable != nil
	case v1alpha1.CSVReasonInvalidWebhookDescription:
		return f.Webhooks != nil
	case v1alpha1.CSVReasonInvalidStrategy:
		return strategy.Check(csv) != nil
	default:
		return false
	}
}

func replacing(csv *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	if f.Replaced != nil {
		return stay()
	}

	next := f.Replacement
	if f.FailForward && next != nil {
		if f.NextErr != nil {
			return Outcome{Err: f.NextErr}
		}
		next = f.Last
	}

	switch {
	case next == nil:
		return Outcome{Err: fmt.Errorf("ClusterServiceVersion %s/%s: marked as replacement, but no replacement CSV found in cluster", csv.Namespace, csv.Name)}
	case next.Status.Phase == v1alpha1.CSVPhaseSucceeded:
		return to(v1alpha1.CSVPhaseDeleting, v1alpha1.CSVReasonReplaced, "has been replaced by a newer ClusterServiceVersion that has successfully installed.")
	default:
		return stay() // What becomes of the next one wakes this one.
	}
}

func deleting(*v1alpha1.ClusterServiceVersion, *Facts) Outcome { return Outcome{Do: DoDelete} }

func invalid(err error) Outcome {
	return to(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInvalidStrategy, "install strategy invalid: "+err.Error())
}

func reinstall() Outcome {
	return to(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonNeedsReinstall, "calculated deployment install is bad")
}

// health is what what was installed comes to; what is not healthy goes to a phase.
func health(f *Facts, phase v1alpha1.ClusterServiceVersionPhase, reason string) Outcome {
	h := &f.Health
	switch {
	case h.Unreachable != nil:
		return Outcome{Err: h.Unreachable}
	case h.Deployments == nil && h.APIsInstalled && h.APIs == nil && h.WebhooksInstalled && h.Webhooks == nil:
		return to(v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful, "install strategy completed with no errors")
	case strategy.Is(h.Deployments, strategy.Stuck):
		return to(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInstallCheckFailed, "install failed: "+h.Deployments.Error())
	case h.Disrupted != "":
		return Outcome{After: disruptionTime}
	case h.APIs != nil:
		return to(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonAPIServiceInstallFailed, "APIService install failed: "+h.APIs.Error())
	case !h.APIsInstalled:
		return to(phase, reason, "apiServices not installed")
	case h.Webhooks != nil:
		return to(v1alpha1.CSVPhaseInstallReady, reason, "Webhook install failed: "+h.Webhooks.Error())
	case !h.WebhooksInstalled:
		return to(phase, reason, "webhooks not installed")
	case strategy.Is(h.Deployments, strategy.Outdated):
		return to(v1alpha1.CSVPhaseInstallReady, reason, "installing: "+h.Deployments.Error())
	default:
		return to(phase, reason, "installing: "+h.Deployments.Error())
	}
}

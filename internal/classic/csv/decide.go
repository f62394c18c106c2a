package csv

import (
	"errors"
	"fmt"
	"time"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/requirements"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/strategy"
)

const (
	// installTimeout is how long an installed operator may take to become healthy.
	installTimeout = 5 * time.Minute
	// requirementsResyncInterval is the time between two checks of unmet requirements. All of them
	// are watched except the version of the API server.
	requirementsResyncInterval = time.Minute
	// disruptionRetryInterval is the time until the next check of an API whose pods are being
	// replaced.
	disruptionRetryInterval = 10 * time.Second
)

// Facts are the input of Decide. Only the facts that the phase needs are set.
type Facts struct {
	Now time.Time

	// Replaced is the ClusterServiceVersion that this one replaces; nil when it does not exist.
	// Blocked is why Replaced must not be upgraded now; empty when it may be.
	Replaced *v1alpha1.ClusterServiceVersion
	Blocked  string
	// Replacement is the ClusterServiceVersion that replaces this one. With FailForward a failed
	// one may be replaced too. LastReplacement is the end of the chain of replacements;
	// LastReplacementErr is set when the chain has no end.
	Replacement        *v1alpha1.ClusterServiceVersion
	FailForward        bool
	LastReplacement    *v1alpha1.ClusterServiceVersion
	LastReplacementErr error

	// Requirements is the result of the requirements check, RequirementsErr why it failed.
	Requirements    *requirements.Result
	RequirementsErr error
	// AreRightsNew is true when missing rights were not read from the API server, because they are probably being
	// created.
	AreRightsNew bool
	// WebhooksErr is why the webhook descriptions are invalid.
	WebhooksErr error
	// CRDOwner is the name of another ClusterServiceVersion in the namespace that owns one of the
	// CRDs and is not a version of the same operator.
	CRDOwner string

	// NotAdoptable is why an owned APIService cannot be adopted. Issues are the differences between
	// the APIServices' resources and what was installed. MustRotate is true when a certificate must
	// be renewed now; RotateAt is the latest time for the renewal.
	NotAdoptable     error
	APIServiceIssues []error
	MustRotate       bool
	RotateAt         time.Time

	// DeploymentsErr is why the Deployments cannot be computed. Health is the observed state of the
	// installation.
	DeploymentsErr error
	Health         Health
}

// Health is the observed state of an installation.
type Health struct {
	// DeploymentsErr is a *strategy.HealthError, nil when all are healthy.
	DeploymentsErr error
	// APIsInstalled is true when the owned APIs are served. APIs is why that is unknown. Disrupted
	// is the message about an API that is temporarily unavailable.
	APIsInstalled bool
	APIsErr       error
	Disrupted     string
	// WebhooksInstalled is true when all webhooks are installed. Webhooks is why that is unknown.
	WebhooksInstalled bool
	WebhooksErr       error
	// UnreachableErr is the error when the API server did not answer.
	UnreachableErr error
}

// phaseDecisions has the function that decides for each phase.
var phaseDecisions = map[v1alpha1.ClusterServiceVersionPhase]func(*v1alpha1.ClusterServiceVersion, *Facts) Outcome{
	v1alpha1.CSVPhaseNone:         decideNew,
	v1alpha1.CSVPhasePending:      decidePending,
	v1alpha1.CSVPhaseInstallReady: decideInstallReady,
	v1alpha1.CSVPhaseInstalling:   decideInstalling,
	v1alpha1.CSVPhaseSucceeded:    decideSucceeded,
	v1alpha1.CSVPhaseFailed:       decideFailed,
	v1alpha1.CSVPhaseReplacing:    decideReplacing,
	v1alpha1.CSVPhaseDeleting:     decideDeleting,
}

// Decide returns the outcome for a ClusterServiceVersion that its OperatorGroup admits.
func Decide(csv *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	decide, ok := phaseDecisions[csv.Status.Phase]
	if !ok {
		return keepPhase()
	}
	return decide(csv, f)
}

func decideNew(*v1alpha1.ClusterServiceVersion, *Facts) Outcome {
	return transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsUnknown, "requirements not yet checked")
}

func decidePending(_ *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	if f.Replaced != nil && f.Blocked != "" {
		return transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonOperatorConditionNotUpgradeable, "operator is not upgradeable: "+f.Blocked)
	}
	if f.RequirementsErr != nil {
		return failInvalidStrategy(f.RequirementsErr)
	}

	o := decideFromRequirements(f)
	o.Requirements = f.Requirements.Statuses
	return o
}

// decideFromRequirements returns the outcome for a pending ClusterServiceVersion whose requirements
// were checked.
func decideFromRequirements(f *Facts) Outcome {
	switch {
	case !f.Requirements.Met:
		o := transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet, "one or more requirements couldn't be found")
		o.RequeueAfter = requirementsResyncInterval
		if f.AreRightsNew {
			o.RequeueAfter = rightsSettleTime
		}
		return o
	case f.WebhooksErr != nil:
		return transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInvalidWebhookDescription, f.WebhooksErr.Error())
	case f.CRDOwner != "":
		return transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonOwnerConflict, "conflicting CRD owner in namespace")
	case f.NotAdoptable != nil:
		return transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonOwnerConflict, "unable to adopt APIService")
	case f.Replaced != nil && f.Replaced.Status.Phase != v1alpha1.CSVPhaseReplacing:
		return waitForReplaced(f)
	default:
		return transitionTo(v1alpha1.CSVPhaseInstallReady, v1alpha1.CSVReasonRequirementsMet, "all requirements found, attempting install")
	}
}

// waitForReplaced returns the outcome for a ClusterServiceVersion that waits until the replaced one is in phase Replacing.
// It names the cause, unless that is the next step of the replaced one.
func waitForReplaced(f *Facts) Outcome {
	replaced := f.Replaced
	switch {
	case f.LastReplacementErr != nil:
		return transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsUnknown, f.LastReplacementErr.Error())
	case replaced.Status.Phase == v1alpha1.CSVPhaseSucceeded:
		return keepPhase()
	case replaced.Status.Phase == v1alpha1.CSVPhaseFailed:
		return transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsUnknown, fmt.Sprintf(
			"waiting for ClusterServiceVersion %s, which has failed and is not replaced before it has succeeded: remove the cause, or set spec.upgradeStrategy of the OperatorGroup to %s",
			replaced.Name, operatorsv1.UpgradeStrategyUnsafeFailForward))
	default:
		return transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsUnknown,
			fmt.Sprintf("waiting for ClusterServiceVersion %s, which is replaced when it has succeeded", replaced.Name))
	}
}

func decideInstallReady(csv *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	if err := strategy.Check(csv); err != nil {
		return failInvalidStrategy(err)
	}
	if wait := remainingInstallRetryInterval(&csv.Status, f.Now); wait > 0 {
		return Outcome{RequeueAfter: wait}
	}
	return Outcome{Action: DoInstall}
}

func decideInstalling(csv *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	if f.DeploymentsErr != nil {
		return requireReinstall()
	}

	o := decideFromHealth(f, v1alpha1.CSVPhaseInstalling, v1alpha1.CSVReasonInstallWaiting)
	since := csv.Status.LastTransitionTime
	if o.Phase != v1alpha1.CSVPhaseInstalling || since == nil {
		return o
	}

	left := installTimeout - f.Now.Sub(since.Time)
	if left <= 0 {
		return transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInstallCheckFailed, "install timeout")
	}

	o.RequeueAfter = left
	return o
}

func decideSucceeded(csv *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	switch {
	case f.Replacement != nil && f.LastReplacementErr == nil:
		return transitionTo(v1alpha1.CSVPhaseReplacing, v1alpha1.CSVReasonBeingReplaced, "being replaced by csv: "+f.Replacement.Name)
	case len(f.APIServiceIssues) > 0:
		return transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonAPIServiceResourceIssue, errors.Join(f.APIServiceIssues...).Error())
	case f.MustRotate:
		return transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonNeedsCertRotation, "CSV owns resources that require a cert refresh")
	case f.RequirementsErr != nil:
		return failInvalidStrategy(f.RequirementsErr)
	case !f.Requirements.Met:
		o := transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonRequirementsNotMet, "requirements no longer met")
		o.Requirements = f.Requirements.Statuses
		return o
	case f.DeploymentsErr != nil:
		return requireReinstall()
	}

	o := decideFromHealth(f, v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonComponentUnhealthy)
	if o.Phase == csv.Status.Phase && !f.RotateAt.IsZero() {
		o.RequeueAfter = f.RotateAt.Sub(f.Now)
	}
	return o
}

// groupFailureMessages maps the reasons of failures caused by an OperatorGroup to the message for
// the time when the group admits the ClusterServiceVersion again.
var groupFailureMessages = map[string]string{
	v1alpha1.CSVReasonNoTargetNamespaces:                  "InstallModes now support target namespaces",
	v1alpha1.CSVReasonNoOperatorGroup:                     "InstallModes now support target namespaces",
	v1alpha1.CSVReasonTooManyOperatorGroups:               "InstallModes now support target namespaces",
	v1alpha1.CSVReasonUnsupportedOperatorGroup:            "InstallModes now support target namespaces",
	v1alpha1.CSVReasonInvalidInstallModes:                 "InstallModes now support target namespaces",
	v1alpha1.CSVReasonInterOperatorGroupOwnerConflict:     "OperatorGroup no longer intersecting with conflicting owner",
	v1alpha1.CSVReasonCannotModifyStaticOperatorGroupAPIs: "static OperatorGroup and intersecting groups now support providedAPIs",
}

func decideFailed(csv *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	reason := csv.Status.Reason
	if f.FailForward && f.Replacement != nil && f.LastReplacementErr == nil {
		return transitionTo(v1alpha1.CSVPhaseReplacing, v1alpha1.CSVReasonBeingReplaced,
			"Fail Forward is enabled, allowing Failed csv to be replaced by csv: "+f.Replacement.Name)
	}
	if message, ok := groupFailureMessages[reason]; ok {
		return transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsUnknown, message)
	}

	switch {
	case f.RequirementsErr != nil:
		return failInvalidStrategy(f.RequirementsErr)
	case !f.Requirements.Met:
		o := transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet, "requirements not met")
		o.Requirements = f.Requirements.Statuses
		return o
	case reason == v1alpha1.CSVReasonInvalidWebhookDescription && f.WebhooksErr != nil:
		return transitionTo(v1alpha1.CSVPhaseFailed, reason, f.WebhooksErr.Error()) // The cause may have changed.
	case wouldFailAgain(csv, f):
		return keepPhase()
	case len(f.APIServiceIssues) > 0 && f.NotAdoptable != nil:
		return keepPhase()
	case len(f.APIServiceIssues) > 0:
		return transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonAPIServiceResourcesNeedReinstall, errors.Join(f.APIServiceIssues...).Error())
	case f.MustRotate:
		return transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonNeedsCertRotation, "owned APIServices need cert refresh")
	case f.DeploymentsErr != nil:
		return requireReinstall()
	default:
		return decideFromHealth(f, v1alpha1.CSVPhasePending, v1alpha1.CSVReasonNeedsReinstall)
	}
}

// wouldFailAgain reports whether a failed installation would fail for the same reason again.
func wouldFailAgain(csv *v1alpha1.ClusterServiceVersion, f *Facts) bool {
	switch csv.Status.Reason {
	case v1alpha1.CSVReasonOwnerConflict:
		return f.CRDOwner != "" || f.NotAdoptable != nil
	case v1alpha1.CSVReasonInvalidStrategy:
		return strategy.Check(csv) != nil
	default:
		return false
	}
}

func decideReplacing(_ *v1alpha1.ClusterServiceVersion, f *Facts) Outcome {
	switch {
	case f.LastReplacementErr != nil:
		return transitionTo(v1alpha1.CSVPhaseReplacing, v1alpha1.CSVReasonBeingReplaced, f.LastReplacementErr.Error())
	case f.Replaced != nil:
		return keepPhase()
	case f.Replacement == nil:
		return transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsUnknown, "the ClusterServiceVersion that replaced this one no longer exists")
	case hasSucceeded(f.LastReplacement) || !f.FailForward && hasSucceeded(f.Replacement):
		return transitionTo(v1alpha1.CSVPhaseDeleting, v1alpha1.CSVReasonReplaced, "has been replaced by a newer ClusterServiceVersion that has successfully installed.")
	default:
		return keepPhase() // A change of the replacement enqueues this one.
	}
}

func hasSucceeded(csv *v1alpha1.ClusterServiceVersion) bool {
	return csv != nil && csv.Status.Phase == v1alpha1.CSVPhaseSucceeded
}

func decideDeleting(*v1alpha1.ClusterServiceVersion, *Facts) Outcome {
	return Outcome{Action: DoDelete}
}

func failInvalidStrategy(err error) Outcome {
	return transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInvalidStrategy, "install strategy invalid: "+err.Error())
}

func requireReinstall() Outcome {
	return transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonNeedsReinstall, "calculated deployment install is bad")
}

// decideFromHealth returns Succeeded for a healthy installation. Most other states lead to the given
// phase and reason.
func decideFromHealth(f *Facts, phase v1alpha1.ClusterServiceVersionPhase, reason string) Outcome {
	h := &f.Health
	switch {
	case h.UnreachableErr != nil:
		return Outcome{Err: h.UnreachableErr}
	case h.DeploymentsErr == nil && h.APIsInstalled && h.APIsErr == nil && h.WebhooksInstalled && h.WebhooksErr == nil:
		return transitionTo(v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVReasonInstallSuccessful, "install strategy completed with no errors")
	case strategy.HasTrouble(h.DeploymentsErr, strategy.Stuck):
		return transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonInstallCheckFailed, "install failed: "+h.DeploymentsErr.Error())
	case h.Disrupted != "":
		return Outcome{RequeueAfter: disruptionRetryInterval}
	case h.APIsErr != nil:
		return transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonAPIServiceInstallFailed, "APIService install failed: "+h.APIsErr.Error())
	case !h.APIsInstalled:
		return transitionTo(phase, reason, "apiServices not installed")
	case h.WebhooksErr != nil:
		return transitionTo(v1alpha1.CSVPhaseInstallReady, reason, "Webhook install failed: "+h.WebhooksErr.Error())
	case !h.WebhooksInstalled:
		return transitionTo(phase, reason, "webhooks not installed")
	case strategy.HasTrouble(h.DeploymentsErr, strategy.Outdated):
		return transitionTo(v1alpha1.CSVPhaseInstallReady, reason, "installing: "+h.DeploymentsErr.Error())
	default:
		return transitionTo(phase, reason, "installing: "+h.DeploymentsErr.Error())
	}
}

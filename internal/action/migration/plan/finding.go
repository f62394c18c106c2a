package plan

import (
	"fmt"
	"slices"
)

// Severity is how a finding affects the migration.
type Severity string

const (
	// SeverityBlocker prevents the migration until it is resolved.
	SeverityBlocker Severity = "Blocker"
	// SeverityAcknowledge prevents the migration until the user accepts it.
	SeverityAcknowledge Severity = "Acknowledge"
	// SeverityWarning is a change that the user should know.
	SeverityWarning Severity = "Warning"
)

// Acknowledgement names findings that a user can accept.
type Acknowledgement string

// The findings that a user can accept.
const (
	// AcknowledgeScopeChange accepts that the operator watches all namespaces.
	AcknowledgeScopeChange Acknowledgement = "watch-scope-change"
	// AcknowledgeCondition accepts that OLM v1 does not read the OperatorCondition.
	AcknowledgeCondition Acknowledgement = "operator-condition"
	// AcknowledgeClassicAPIAccess accepts that the operator does not find its own Subscription
	// and ClusterServiceVersion any more.
	AcknowledgeClassicAPIAccess Acknowledgement = "classic-api-access"
	// AcknowledgeServiceAccount accepts that the rights of operator-controller are used instead
	// of those of the OperatorGroup's service account.
	AcknowledgeServiceAccount Acknowledgement = "scoped-service-account"
	// AcknowledgeNotSteady accepts that an update is pending or that the operator has failed.
	AcknowledgeNotSteady Acknowledgement = "not-steady-state"
	// AcknowledgeRestart accepts that the pods of the operator restart.
	AcknowledgeRestart Acknowledgement = "restart"
	// AcknowledgeDifferentBundle accepts that the catalog contains another bundle of the same name.
	AcknowledgeDifferentBundle Acknowledgement = "different-bundle"
)

// maxNamesInMessage limits how many names a message lists.
const maxNamesInMessage = 5

// Acknowledgements are all findings that a user can accept.
var Acknowledgements = []Acknowledgement{
	AcknowledgeScopeChange, AcknowledgeCondition, AcknowledgeClassicAPIAccess, AcknowledgeServiceAccount,
	AcknowledgeNotSteady, AcknowledgeRestart, AcknowledgeDifferentBundle,
}

// Finding is a result of a check.
type Finding struct {
	Severity Severity `json:"severity"`
	// Check is the name of the check, such as InstallMode.
	Check string `json:"check"`
	// Object is the object that the finding is about.
	Object string `json:"object"`
	// Message is the condition that was found.
	Message string `json:"message"`
	// Remedy is what the user can do.
	Remedy string `json:"remedy,omitempty"`
	// Acknowledge is the acknowledgement that accepts the finding. It is empty if none does.
	Acknowledge Acknowledgement `json:"acknowledge,omitempty"`
	// Acknowledged reports whether the user accepted the finding.
	Acknowledged bool `json:"acknowledged,omitempty"`
}

// Blocks reports whether the finding prevents the migration.
func (f Finding) Blocks() bool {
	return f.Severity == SeverityBlocker || f.Severity == SeverityAcknowledge && !f.Acknowledged
}

func newBlocker(check, object, remedy, format string, args ...any) Finding {
	return Finding{Severity: SeverityBlocker, Check: check, Object: object, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

func newWarning(check, object, remedy, format string, args ...any) Finding {
	return Finding{Severity: SeverityWarning, Check: check, Object: object, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

func newQuestion(check, object string, acknowledge Acknowledgement, remedy, format string, args ...any) Finding {
	return Finding{Severity: SeverityAcknowledge, Check: check, Object: object, Message: fmt.Sprintf(format, args...), Remedy: remedy, Acknowledge: acknowledge}
}

// markAcknowledged marks the findings that the user accepts, and sorts the findings by severity.
func markAcknowledged(findings []Finding, accepted []Acknowledgement) []Finding {
	for i := range findings {
		a := findings[i].Acknowledge
		findings[i].Acknowledged = a != "" && slices.Contains(accepted, a)
	}

	order := []Severity{SeverityBlocker, SeverityAcknowledge, SeverityWarning}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})

	return findings
}

// Package risk finds the risks of updating a cluster to another minor or major version:
// overrides of the administrator, pending deletions, gates that are not acknowledged, and
// operators that are not upgradeable.
//
// It has no side effects and only uses its arguments. Risks of single releases, which the update
// service reports, are handled elsewhere.
package risk

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// The ConfigMaps of gates and of their acknowledgements. A key of the first is
// ack-<major>.<minor>-<name>, and its value describes what the administrator must check. The same key
// with the value "true" in the second acknowledges the gate.
const (
	GatesNamespace = "openshift-config-managed"
	GatesName      = "admin-gates"
	AcksNamespace  = "openshift-config"
	AcksName       = "admin-acks"
)

// Reasons of the Upgradeable condition.
const (
	ReasonMultiple   = "MultipleReasons"
	ReasonUnfitName  = "RiskNameNotCompatibleWithReasonProperty"
	ReasonEvaluation = "EvaluationFailed"
)

// Risk is a reason not to update.
type Risk struct {
	// Name is unique.
	Name string
	// Message says what to do.
	Message string
}

// Input is the input of Find.
type Input struct {
	// Version is the version that the cluster is at, or is being updated to.
	Version string
	// Updating is true while a release is being applied that was not complete yet.
	Updating bool
	// Overrides are the overrides of the ClusterVersion.
	Overrides []configv1.ComponentOverride
	// Deletions are the objects that an update deletes and that still exist, as text.
	Deletions []string
	// Gates and Acks are the data of the two ConfigMaps.
	Gates, Acks map[string]string
	// Operators are the ClusterOperators.
	Operators []configv1.ClusterOperator
}

// Find returns the risks, sorted by name. If gates cannot be evaluated, it returns an error and
// the other risks.
func Find(in Input) ([]Risk, error) {
	var risks []Risk
	if in.Updating {
		risks = append(risks, Risk{"ClusterVersionUpdating", "An update is already in progress and the details are in the Progressing condition."})
	}
	if slices.ContainsFunc(in.Overrides, func(o configv1.ComponentOverride) bool { return o.Unmanaged }) {
		risks = append(risks, Risk{"ClusterVersionOverrides", "Disabling ownership via cluster version overrides prevents updates between minor or major versions. " +
			"Please remove overrides before requesting a minor or major version update."})
	}
	if len(in.Deletions) > 0 {
		risks = append(risks, Risk{"ResourceDeletionInProgress", "Cluster minor or major version upgrades are not allowed while resource deletions are in progress; resources=" +
			strings.Join(slices.Sorted(slices.Values(in.Deletions)), ",")})
	}

	gates, err := findUnacknowledgedGates(in)
	risks = append(risks, gates...)
	risks = append(risks, findOperatorRisks(in.Operators)...)
	slices.SortFunc(risks, func(a, b Risk) int { return strings.Compare(a.Name, b.Name) })

	return risks, err
}

var gatePattern = regexp.MustCompile(`^ack-([0-9]+[.][0-9]+)-[^-]`)

// findUnacknowledgedGates returns a risk for each unacknowledged gate of the cluster's minor
// version. A gate with an invalid key always counts, because its version is not known.
func findUnacknowledgedGates(in Input) ([]Risk, error) {
	if len(in.Gates) == 0 {
		return nil, nil
	}

	version, err := semver.Parse(in.Version)
	if err != nil {
		return nil, fmt.Errorf("the gates of ConfigMap %s/%s cannot be judged: the cluster's version %q: %w", GatesNamespace, GatesName, in.Version, err)
	}

	current := fmt.Sprintf("%d.%d", version.Major, version.Minor)
	var risks []Risk
	for _, key := range slices.Sorted(maps.Keys(in.Gates)) {
		match := gatePattern.FindStringSubmatch(key)
		text := in.Gates[key]
		switch {
		case match == nil:
			text = fmt.Sprintf("%s configmap gate %s must be named ack-<major>.<minor>-<name>.", GatesName, key)
		case match[1] != current || in.Acks[key] == "true":
			continue
		case text == "":
			text = fmt.Sprintf("%s configmap gate %s must contain a non-empty value.", GatesName, key)
		}
		risks = append(risks, Risk{"AdminAck-" + key, text})
	}

	return risks, nil
}

func findOperatorRisks(all []configv1.ClusterOperator) []Risk {
	var risks []Risk
	for _, operator := range all {
		for _, condition := range operator.Status.Conditions {
			if condition.Type != configv1.OperatorUpgradeable || condition.Status != metav1.ConditionFalse {
				continue
			}
			message := condition.Message
			if message == "" {
				message = fmt.Sprintf("Cluster operator %s should not be upgraded between minor or major versions, and does not say why.", operator.Name)
			}
			risks = append(risks, Risk{"ClusterOperatorUpgradeable-" + operator.Name, message})
		}
	}

	return risks
}

// reasonPattern is the format of condition reasons in the Kubernetes API.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// Condition returns the Upgradeable condition without its transition time; ok is false if there
// are no risks. An error is reported only if there are no other risks.
func Condition(risks []Risk, err error) (condition configv1.ClusterOperatorStatusCondition, ok bool) {
	condition = configv1.ClusterOperatorStatusCondition{Type: configv1.OperatorUpgradeable, Status: metav1.ConditionFalse}
	switch {
	case len(risks) == 0 && err == nil:
		return condition, false
	case len(risks) == 0:
		condition.Status = metav1.ConditionUnknown
		condition.Reason = ReasonEvaluation
		condition.Message = err.Error()
	case len(risks) == 1:
		condition.Reason = risks[0].Name
		condition.Message = risks[0].Message
		if !reasonPattern.MatchString(condition.Reason) {
			condition.Reason = ReasonUnfitName
		}
	default:
		lines := []string{"Cluster should not be upgraded between minor or major versions for multiple reasons:"}
		for _, risk := range risks {
			lines = append(lines, "* "+risk.Message)
		}
		condition.Reason = ReasonMultiple
		condition.Message = strings.Join(lines, "\n")
	}

	return condition, true
}

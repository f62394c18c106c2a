package updates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Reasons of the Recommended condition of a conditional update. The names of risks are further
// reasons.
const (
	ReasonNotExposedToRisks       = "NotExposedToRisks"
	ReasonAllExposedRisksAccepted = "AllExposedRisksAccepted"
	ReasonExposedToRisks          = "ExposedToRisks"
	ReasonEvaluationFailed        = "EvaluationFailed"
	ReasonMultipleReasons         = "MultipleReasons"
)

// Reasons of the Applies condition of a risk, in addition to ReasonEvaluationFailed.
const (
	ReasonMatch    = "Match"
	ReasonNotMatch = "NotMatch"
)

const (
	messageNotExposed = "The update is recommended, because none of the conditional update risks apply to this cluster."
	messageAccepted   = "The update is recommended, because either risk does not apply to this cluster or it is accepted by cluster admins."
)

// Querier evaluates PromQL queries that either match or do not match.
type Querier interface {
	// Match reports whether the only sample of the query is 1. It returns false if the sample is
	// 0, and an error in all other cases.
	Match(ctx context.Context, query string) (bool, error)
}

// reasonPattern is the format of condition reasons in the Kubernetes API.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// Limits of the API server for conditions, in bytes.
const (
	maxReasonBytes  = 1024
	maxMessageBytes = 32 << 10
)

// riskEvaluation is the state of one evaluation of all risks.
type riskEvaluation struct {
	promql        Querier
	acceptedRisks []string
	previous      []configv1.ConditionalUpdate
	now           metav1.Time

	hasUnknown bool // a risk could not be evaluated
}

// evaluateUpdates returns the conditional updates with their conditions.
func (e *riskEvaluation) evaluateUpdates(ctx context.Context, updates []cincinnati.ConditionalUpdate) []configv1.ConditionalUpdate {
	before := make(map[string]configv1.ConditionalUpdate, len(e.previous))
	for _, update := range e.previous {
		before[update.Release.Image] = update
	}

	var evaluated []configv1.ConditionalUpdate
	for _, update := range updates {
		result := configv1.ConditionalUpdate{Release: releaseFromNode(update.Node)}
		verdict := recommendation{status: metav1.ConditionTrue, reason: ReasonNotExposedToRisks, messages: []string{messageNotExposed}}
		for _, risk := range update.Risks {
			applies := e.evaluateRisk(ctx, risk)
			verdict.addRisk(risk, applies, slices.Contains(e.acceptedRisks, risk.Name))
			e.hasUnknown = e.hasUnknown || applies.Status == metav1.ConditionUnknown
			result.Risks = append(result.Risks, newRiskStatus(risk, e.withTransitionTime(applies, previousRiskConditions(before[result.Release.Image], risk.Name))))
		}

		result.Conditions = []metav1.Condition{e.withTransitionTime(verdict.toRecommendedCondition(), before[result.Release.Image].Conditions)}
		evaluated = append(evaluated, result)
	}

	return evaluated
}

// withTransitionTime sets the transition time of a condition: that of the earlier condition with
// the same status, or now.
func (e *riskEvaluation) withTransitionTime(c metav1.Condition, before []metav1.Condition) metav1.Condition {
	c.LastTransitionTime = e.now
	for _, known := range before {
		if known.Type == c.Type && known.Status == c.Status && !known.LastTransitionTime.IsZero() {
			c.LastTransitionTime = known.LastTransitionTime
		}
	}
	return c
}

func previousRiskConditions(update configv1.ConditionalUpdate, name string) []metav1.Condition {
	for _, risk := range update.Risks {
		if risk.Name == name {
			return risk.Conditions
		}
	}
	return nil
}

func newRiskStatus(risk cincinnati.Risk, applies metav1.Condition) configv1.ConditionalUpdateRisk {
	result := configv1.ConditionalUpdateRisk{Conditions: []metav1.Condition{applies}, URL: risk.URL, Name: risk.Name, Message: risk.Message}
	for _, rule := range risk.MatchingRules {
		condition := configv1.ClusterCondition{Type: configv1.ClusterConditionType(rule.Type)}
		if rule.PromQL != nil {
			condition.PromQL = &configv1.PromQLClusterCondition{PromQL: rule.PromQL.PromQL}
		}
		result.MatchingRules = append(result.MatchingRules, condition)
	}

	return result
}

// evaluateRisk returns the Applies condition of a risk. The first rule that can be evaluated
// decides.
func (e *riskEvaluation) evaluateRisk(ctx context.Context, risk cincinnati.Risk) metav1.Condition {
	var failed []error
	for _, rule := range risk.MatchingRules {
		matches, err := e.matchRule(ctx, rule)
		switch {
		case err != nil:
			failed = append(failed, err)
			continue
		case matches:
			return newAppliesCondition(metav1.ConditionTrue, ReasonMatch, risk.Message)
		default:
			return newAppliesCondition(metav1.ConditionFalse, ReasonNotMatch, "")
		}
	}

	return newAppliesCondition(metav1.ConditionUnknown, ReasonEvaluationFailed, fmt.Sprintf(
		"Could not evaluate exposure to update risk %[1]s (%[2]v)\n  %[1]s description: %[3]s\n  %[1]s URL: %[4]s",
		risk.Name, joinErrorLines(errors.Join(failed...)), risk.Message, risk.URL))
}

func newAppliesCondition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: configv1.ConditionalUpdateRiskApplies, Status: status, Reason: reason, Message: excerpt.Start(message, maxMessageBytes)}
}

func (e *riskEvaluation) matchRule(ctx context.Context, rule cincinnati.Rule) (bool, error) {
	switch {
	case rule.Type == cincinnati.RuleAlways:
		return true, nil
	case e.promql == nil:
		return false, errors.New("no Prometheus is configured")
	}
	return e.promql.Match(ctx, rule.PromQL.PromQL)
}

// joinErrorLines returns the text of an error on one line.
func joinErrorLines(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// recommendation accumulates the Recommended condition of an update. False takes precedence over
// Unknown, and Unknown over True.
type recommendation struct {
	status   metav1.ConditionStatus
	reason   string
	messages []string
}

// addRisk updates the recommendation by a risk and its Applies condition.
func (r *recommendation) addRisk(risk cincinnati.Risk, applies metav1.Condition, accepted bool) {
	switch {
	case applies.Status == metav1.ConditionFalse:
	case accepted:
		if r.status == metav1.ConditionTrue {
			r.reason = ReasonAllExposedRisksAccepted
			r.messages = []string{messageAccepted}
		}
	case applies.Status == metav1.ConditionUnknown:
		status := metav1.ConditionUnknown
		if r.status == metav1.ConditionFalse {
			status = r.status
		}
		r.addMessage(status, ReasonEvaluationFailed, applies.Message)
	default:
		r.addMessage(metav1.ConditionFalse, riskReason(risk.Name), risk.Message+" "+risk.URL)
	}
}

func (r *recommendation) addMessage(status metav1.ConditionStatus, reason, message string) {
	if r.status == metav1.ConditionTrue {
		r.messages = nil
	} else if r.reason != reason {
		reason = ReasonMultipleReasons
	}
	r.status = status
	r.reason = reason
	r.messages = append(r.messages, message)
}

// riskReason returns the name of a risk if it is a valid reason, and a generic reason otherwise.
func riskReason(name string) string {
	if len(name) <= maxReasonBytes && reasonPattern.MatchString(name) {
		return name
	}
	return ReasonExposedToRisks
}

func (r *recommendation) toRecommendedCondition() metav1.Condition {
	return metav1.Condition{
		Type: configv1.ConditionalUpdateRecommended, Status: r.status, Reason: r.reason,
		Message: excerpt.Start(strings.Join(r.messages, "\n\n"), maxMessageBytes),
	}
}

// compareNewestFirst orders releases by descending version.
func compareNewestFirst(a, b configv1.Release) int {
	va, errA := semver.Parse(a.Version)
	vb, errB := semver.Parse(b.Version)
	if errA != nil || errB != nil {
		return cmp.Compare(b.Version, a.Version)
	}
	return vb.Compare(va)
}

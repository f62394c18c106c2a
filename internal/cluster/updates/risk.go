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
)

// Reasons of the condition Recommended of a conditional update, beside the names of risks.
const (
	ReasonNotExposedToRisks       = "NotExposedToRisks"
	ReasonAllExposedRisksAccepted = "AllExposedRisksAccepted"
	ReasonExposedToRisks          = "ExposedToRisks"
	ReasonEvaluationFailed        = "EvaluationFailed"
	ReasonMultipleReasons         = "MultipleReasons"
)

// Reasons of the condition Applies of a risk, beside ReasonEvaluationFailed.
const (
	ReasonMatch    = "Match"
	ReasonNotMatch = "NotMatch"
)

const (
	messageNotExposed = "The update is recommended, because none of the conditional update risks apply to this cluster."
	messageAccepted   = "The update is recommended, because either risk does not apply to this cluster or it is accepted by cluster admins."
)

// Querier evaluates a PromQL query that matches or does not.
type Querier interface {
	// Match returns whether the query's one sample is 1, and not 0. Everything else is an
	// error.
	Match(ctx context.Context, query string) (bool, error)
}

// reasonPattern is what the reason of a condition may be.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// What the API server takes of a condition, in bytes.
const (
	maxReason  = 1024
	maxMessage = 32 << 10
)

// evaluation is one round of evaluating risks.
type evaluation struct {
	promql   Querier
	accepted []string
	previous []configv1.ConditionalUpdate
	now      metav1.Time

	unknown bool // some risk could not be evaluated
}

// evaluate returns conditional updates with their conditions.
func (e *evaluation) evaluate(ctx context.Context, updates []cincinnati.ConditionalUpdate) []configv1.ConditionalUpdate {
	before := make(map[string]configv1.ConditionalUpdate, len(e.previous))
	for _, update := range e.previous {
		before[update.Release.Image] = update
	}

	var evaluated []configv1.ConditionalUpdate
	for _, update := range updates {
		told := configv1.ConditionalUpdate{Release: releaseOf(update.Node)}
		verdict := recommended{status: metav1.ConditionTrue, reason: ReasonNotExposedToRisks, messages: []string{messageNotExposed}}
		for _, risk := range update.Risks {
			applies := e.applies(ctx, risk)
			verdict.weigh(risk, applies, slices.Contains(e.accepted, risk.Name))
			e.unknown = e.unknown || applies.Status == metav1.ConditionUnknown
			told.Risks = append(told.Risks, riskOf(risk, e.since(applies, risksBefore(before[told.Release.Image], risk.Name))))
		}

		told.Conditions = []metav1.Condition{e.since(verdict.condition(), before[told.Release.Image].Conditions)}
		evaluated = append(evaluated, told)
	}

	return evaluated
}

// since returns a condition the time of its last transition.
func (e *evaluation) since(c metav1.Condition, before []metav1.Condition) metav1.Condition {
	c.LastTransitionTime = e.now
	for _, known := range before {
		if known.Type == c.Type && known.Status == c.Status && !known.LastTransitionTime.IsZero() {
			c.LastTransitionTime = known.LastTransitionTime
		}
	}
	return c
}

func risksBefore(update configv1.ConditionalUpdate, name string) []metav1.Condition {
	for _, risk := range update.Risks {
		if risk.Name == name {
			return risk.Conditions
		}
	}
	return nil
}

func riskOf(risk cincinnati.Risk, applies metav1.Condition) configv1.ConditionalUpdateRisk {
	told := configv1.ConditionalUpdateRisk{Conditions: []metav1.Condition{applies}, URL: risk.URL, Name: risk.Name, Message: risk.Message}
	for _, rule := range risk.MatchingRules {
		condition := configv1.ClusterCondition{Type: configv1.ClusterConditionType(rule.Type)}
		if rule.PromQL != nil {
			condition.PromQL = &configv1.PromQLClusterCondition{PromQL: rule.PromQL.PromQL}
		}
		told.MatchingRules = append(told.MatchingRules, condition)
	}

	return told
}

// applies reports whether a risk applies to the cluster: the first rule that can be evaluated
// decides.
func (e *evaluation) applies(ctx context.Context, risk cincinnati.Risk) metav1.Condition {
	var failed []error
	for _, rule := range risk.MatchingRules {
		matches, err := e.match(ctx, rule)
		switch {
		case err != nil:
			failed = append(failed, err)
			continue
		case matches:
			return appliesCondition(metav1.ConditionTrue, ReasonMatch, risk.Message)
		default:
			return appliesCondition(metav1.ConditionFalse, ReasonNotMatch, "")
		}
	}

	return appliesCondition(metav1.ConditionUnknown, ReasonEvaluationFailed, fmt.Sprintf(
		"Could not evaluate exposure to update risk %[1]s (%[2]v)\n  %[1]s description: %[3]s\n  %[1]s URL: %[4]s",
		risk.Name, oneLine(errors.Join(failed...)), risk.Message, risk.URL))
}

func appliesCondition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: configv1.ConditionalUpdateRiskApplies, Status: status, Reason: reason, Message: bounded(message)}
}

func (e *evaluation) match(ctx context.Context, rule cincinnati.Rule) (bool, error) {
	switch {
	case rule.Type == cincinnati.RuleAlways:
		return true, nil
	case e.promql == nil:
		return false, errors.New("there is no Prometheus to ask")
	}
	return e.promql.Match(ctx, rule.PromQL.PromQL)
}

// oneLine joins the lines of an error.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// recommended is the verdict about an update: False beats Unknown, which beats True.
type recommended struct {
	status   metav1.ConditionStatus
	reason   string
	messages []string
}

// weigh adds what a risk has to say.
func (r *recommended) weigh(risk cincinnati.Risk, applies metav1.Condition, accepted bool) {
	switch {
	case applies.Status == metav1.ConditionFalse:
	case accepted:
		if r.status == metav1.ConditionTrue {
			r.reason, r.messages = ReasonAllExposedRisksAccepted, []string{messageAccepted}
		}
	case applies.Status == metav1.ConditionUnknown:
		status := metav1.ConditionUnknown
		if r.status == metav1.ConditionFalse {
			status = r.status
		}
		r.add(status, ReasonEvaluationFailed, applies.Message)
	default:
		r.add(metav1.ConditionFalse, reasonOf(risk.Name), risk.Message+" "+risk.URL)
	}
}

func (r *recommended) add(status metav1.ConditionStatus, reason, message string) {
	if r.status == metav1.ConditionTrue {
		r.messages = nil
	} else if r.reason != reason {
		reason = ReasonMultipleReasons
	}
	r.status, r.reason, r.messages = status, reason, append(r.messages, message)
}

// reasonOf makes a reason of the name of a risk.
func reasonOf(name string) string {
	if len(name) <= maxReason && reasonPattern.MatchString(name) {
		return name
	}
	return ReasonExposedToRisks
}

func (r *recommended) condition() metav1.Condition {
	return metav1.Condition{
		Type: configv1.ConditionalUpdateRecommended, Status: r.status, Reason: r.reason,
		Message: bounded(strings.Join(r.messages, "\n\n")),
	}
}

// bounded keeps a message to what the API server takes.
func bounded(message string) string {
	const end = "…"
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len(end)], "") + end
}

// newerFirst sorts releases by descending version.
func newerFirst(a, b configv1.Release) int {
	va, errA := semver.Parse(a.Version)
	vb, errB := semver.Parse(b.Version)
	if errA != nil || errB != nil {
		return cmp.Compare(b.Version, a.Version)
	}
	return vb.Compare(va)
}

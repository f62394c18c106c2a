package clusterupdate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/update/alerts"
)

// Recommend lists the available updates and the known issues of each, in the cluster and in
// the release.
type Recommend struct {
	// Client is the client of the cluster.
	Client client.Client
	// Alerts is the source of alerts.
	Alerts alerts.Source
	// Accept are the names of accepted issues.
	Accept []string
	// Version limits the result to one version. Empty means all.
	Version string
}

// IssueFailing is the name of the issue that the cluster is failing, or may be failing, at
// its current version.
const IssueFailing = configv1.ClusterVersionFailing

// Recommendation is the result of Recommend.
type Recommendation struct {
	// ClusterVersion is the object that was read.
	ClusterVersion *configv1.ClusterVersion `json:"-"`
	// AlertsChecked reports whether alerts were read.
	AlertsChecked bool `json:"alertsChecked"`
	// Passed are the names of cluster checks without findings.
	Passed []string `json:"passed,omitempty"`
	// Concerns are the findings of cluster checks.
	Concerns []Concern `json:"concerns,omitempty"`
	// UnknownAlerts are the firing alerts that no check covers, with their objects.
	UnknownAlerts []string `json:"unknownAlerts,omitempty"`
	// Minors are the updates by minor version, the highest first.
	Minors []Minor `json:"minors"`
	// Unaccepted are the names of the issues that apply to an update to the requested
	// version and are not accepted. It is empty if no version was requested.
	Unaccepted []string `json:"unaccepted,omitempty"`
}

// Concern is a state of the cluster that is a risk for any update.
type Concern struct {
	// Name contains the check and the alert.
	Name string `json:"name"`
	// Issue is the name by which the concern is accepted.
	Issue string `json:"issue"`
	// Reason is a CamelCase word.
	Reason string `json:"reason"`
	// Message is a description for people.
	Message string `json:"message"`
}

// Minor contains the updates to one minor version.
type Minor struct {
	// Version is the major and minor version, such as 1.4.
	Version string `json:"version"`
	// Updates are sorted by version, the highest first.
	Updates []Option `json:"updates"`
}

// Option is an available update.
type Option struct {
	Release configv1.Release `json:"release"`
	// Recommended is False or Unknown. It is empty for an update without issues.
	Recommended metav1.ConditionStatus `json:"recommended,omitempty"`
	// Reason and Message describe the issues. Both are empty for an update without issues.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Issues are the names of known issues that apply or may apply to the cluster and are
	// not accepted. Accepted are the names of the accepted ones.
	Issues   []string `json:"issues,omitempty"`
	Accepted []string `json:"accepted,omitempty"`
	// Assessment is the recommendation in a word.
	Assessment Assessment `json:"assessment" enum:"Recommended,Blocked,Unknown,NotRecommended"`
	// KnownIssues reports whether the release has issues of its own, accepted or not, in addition to
	// Upgradeable=False of the cluster.
	KnownIssues bool `json:"knownIssues,omitempty"`
}

// Assessment is the recommendation of an update in a word.
type Assessment string

const (
	// AssessmentRecommended means that no issue is left.
	AssessmentRecommended Assessment = "Recommended"
	// AssessmentBlocked means that only Upgradeable=False of the cluster prevents the update.
	AssessmentBlocked Assessment = "Blocked"
	// AssessmentUnknown means that it is unknown whether the issues apply to the cluster.
	AssessmentUnknown Assessment = "Unknown"
	// AssessmentNotRecommended means that issues apply to the cluster.
	AssessmentNotRecommended Assessment = "NotRecommended"
)

// setAssessment sets the assessment for the issues of an update.
func (o *Option) setAssessment() {
	isOfRelease := func(issue string) bool { return issue != IssueUpgradeable }
	o.KnownIssues = slices.ContainsFunc(o.Issues, isOfRelease) || slices.ContainsFunc(o.Accepted, isOfRelease)
	switch {
	case len(o.Issues) == 0:
		o.Assessment = AssessmentRecommended
	case !slices.ContainsFunc(o.Issues, isOfRelease):
		o.Assessment = AssessmentBlocked
	case o.Recommended == metav1.ConditionUnknown:
		o.Assessment = AssessmentUnknown
	default:
		o.Assessment = AssessmentNotRecommended
	}
}

// Validate checks the options that do not depend on the cluster.
func (a *Recommend) Validate() error {
	if a.Version == "" {
		return nil
	}
	if _, err := semver.Parse(a.Version); err != nil {
		return fmt.Errorf("--version must be a semantic version (e.g. 4.0.1 or 4.1.0-nightly-20181104): %w", err)
	}
	return nil
}

// Run reads the ClusterVersion and the alerts and evaluates them.
func (a *Recommend) Run(ctx context.Context) (*Recommendation, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}

	cv, err := Read(ctx, a.Client)
	if err != nil {
		return nil, err
	}

	firing, err := a.Alerts.Firing(ctx)
	if err != nil {
		return nil, err
	}

	r := &Recommendation{ClusterVersion: cv, AlertsChecked: a.Alerts.Location != "", Minors: groupByMinorVersion(Options(cv, a.Accept))}
	if r.AlertsChecked {
		r.Passed, r.Concerns, r.UnknownAlerts = checkAlerts(firing)
	}
	if a.Version != "" {
		return r, a.filterVersion(r)
	}

	return r, nil
}

// filterVersion limits the result to the requested version and sets its unaccepted issues.
func (a *Recommend) filterVersion(r *Recommendation) error {
	for _, minor := range r.Minors {
		i := slices.IndexFunc(minor.Updates, func(o Option) bool { return o.Release.Version == a.Version })
		if i < 0 {
			continue
		}

		minor.Updates = minor.Updates[i : i+1]
		r.Minors = []Minor{minor}
		issues := slices.Clone(minor.Updates[0].Issues)
		if f := findCondition(r.ClusterVersion, IssueFailing); f != nil && f.status != string(metav1.ConditionFalse) {
			issues = append(issues, IssueFailing)
		}

		for _, concern := range r.Concerns {
			issues = append(issues, concern.Issue)
		}

		slices.Sort(issues)
		r.Unaccepted = slices.DeleteFunc(slices.Compact(issues), func(name string) bool { return slices.Contains(a.Accept, name) })
		return nil
	}

	return fmt.Errorf("no update to %s available, so cannot display context for the requested release", a.Version)
}

// Options returns all updates, the highest version first. Issues that are named in accept
// are listed as accepted. If the cluster reports Upgradeable=False, every update to another
// minor version has that as an issue, because the operator refuses such updates.
func Options(cv *configv1.ClusterVersion, accept []string) []Option {
	var found []Option
	blocked := upgradeableCondition(cv)
	add := func(o Option, risks []configv1.ConditionalUpdateRisk) {
		if blocked != nil && isMinorUpdate(cv.Status.Desired.Version, o.Release.Version) {
			addUpgradeableIssue(&o, risks, blocked, accept)
		}
		o.setAssessment()
		found = append(found, o)
	}

	for _, release := range Recommended(cv) {
		add(Option{Release: release}, nil)
	}

	for _, update := range NotRecommended(cv) {
		c := RecommendedOf(update)
		o := Option{Release: update.Release, Recommended: c.Status, Reason: c.Reason, Message: c.Message}
		for _, name := range updateIssues(update) {
			if slices.Contains(accept, name) {
				o.Accepted = append(o.Accepted, name)
			} else {
				o.Issues = append(o.Issues, name)
			}
		}
		add(o, update.Risks)
	}

	slices.SortStableFunc(found, func(a, b Option) int { return compareVersions(b.Release.Version, a.Release.Version) })
	return found
}

// updateIssues returns the names of the risks that apply, or may apply, to the cluster. If
// the operator does not report each risk, it returns the reason of the condition
// Recommended.
func updateIssues(update configv1.ConditionalUpdate) []string {
	var names []string
	for _, risk := range update.Risks {
		for _, c := range risk.Conditions {
			if c.Type == configv1.ConditionalUpdateRiskApplies && c.Status != metav1.ConditionFalse {
				names = append(names, risk.Name)
			}
		}
	}

	if len(names) == 0 {
		names = []string{RecommendedOf(update).Reason}
	}

	slices.Sort(names)
	return slices.Compact(names)
}

// groupByMinorVersion groups updates by minor version. It keeps their order.
func groupByMinorVersion(options []Option) []Minor {
	groups := []Minor{}
	for _, o := range options {
		name := o.Release.Version
		if v, err := semver.Parse(name); err == nil {
			name = fmt.Sprintf("%d.%d", v.Major, v.Minor)
		}
		if len(groups) == 0 || groups[len(groups)-1].Version != name {
			groups = append(groups, Minor{Version: name})
		}

		last := &groups[len(groups)-1]
		last.Updates = append(last.Updates, o)
	}

	return groups
}

// alertMessage returns the details of an alert as text.
func alertMessage(alert *alerts.Alert, concern alerts.Concern) string {
	parts := []string{fmt.Sprintf("%s alert %s firing, %s.", alert.Severity(), alert.Name(), concern.Text)}
	if object := alert.Object(); object != "" {
		parts = append(parts, object+".")
	}

	parts = append(parts, alert.Summary())
	if description := alert.Description(); description != "" && description != alert.Summary() {
		parts = append(parts, "The alert description is: "+description)
	}
	if reference := alert.Reference(); reference != "" {
		parts = append(parts, reference)
	}

	return strings.Join(parts, " ")
}

// checkAlerts returns the checks without findings, the findings of the others, and the
// alerts that no check covers.
func checkAlerts(firing []alerts.Alert) (passed []string, found []Concern, unknown []string) {
	const prefix = "recommended/"
	count := map[string]int{}
	for i := range firing {
		alert := &firing[i]
		concern, ok := alert.Concern()
		if !ok {
			if !alert.IsHeartbeat() {
				unknown = append(unknown, describeAlert(alert))
			}
			continue
		}

		name := prefix + concern.Check + "/" + alert.Name()
		found = append(found, Concern{Name: fmt.Sprintf("%s/%d", name, count[name]), Issue: alert.Name(), Reason: "Alert:firing", Message: alertMessage(alert, concern)})
		count[name]++
		count[concern.Check]++
	}

	for _, check := range alerts.Checks() {
		if count[check] == 0 {
			passed = append(passed, prefix+check+" ("+configv1.ReasonAsExpected+")")
		}
	}

	slices.SortFunc(found, func(a, b Concern) int { return cmp.Compare(a.Name, b.Name) })
	return passed, found, slices.Compact(unknown)
}

// describeAlert returns the name of an alert and its object.
func describeAlert(alert *alerts.Alert) string {
	if object := alert.Object(); object != "" {
		return fmt.Sprintf("%s (%s)", alert.Name(), object)
	}
	return alert.Name()
}

package subscription

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/diagnosis"
)

// State is the state of a Subscription in a word.
type State string

// States of Subscriptions.
const (
	// StateReady means that the operator runs, and that OLM installs no other version.
	StateReady State = "Ready"
	// StateAwaitingApproval means that an InstallPlan waits for a person.
	StateAwaitingApproval State = "AwaitingApproval"
	// StateInstalling means that the first version is being installed.
	StateInstalling State = "Installing"
	// StateUpdating means that the operator runs, and another version is being installed.
	StateUpdating State = "Updating"
	// StateDegraded means that the operator is installed and does not run as it should.
	StateDegraded State = "Degraded"
	// StateFailed means that nothing more happens until a cause is removed.
	StateFailed State = "Failed"
	// StateRemoving means that the Subscription is being deleted.
	StateRemoving State = "Removing"
	// StateUnknown means that catalog-operator has not reconciled the Subscription.
	StateUnknown State = "Unknown"
)

// Explain reads the facts about a Subscription and explains them.
type Explain struct {
	Client client.Client
	// Namespace and Name identify the Subscription. Name may also be the name of its package.
	Namespace, Name string
}

// Run returns the explanation. Missing permissions to read are part of it and no error.
func (a *Explain) Run(ctx context.Context) (*diagnosis.Explanation, error) {
	subscription, err := getSubscription(ctx, a.Client, a.Namespace, a.Name)
	if err != nil {
		return nil, err
	}

	facts, err := readFacts(ctx, a.Client, subscription)
	if err != nil {
		return nil, action.NewServerError(describeSubscription(a.Namespace, subscription.Name), err)
	}

	return new(ExplainFacts(facts)), nil
}

// ExplainFacts returns the explanation of the facts.
func ExplainFacts(f Facts) diagnosis.Explanation {
	v := assessFacts(&f)
	e := diagnosis.Explanation{Name: f.Subscription.Name, Summary: v.summary, Why: v.why, Do: v.advice}
	for _, text := range f.Unread {
		e.Why = append(e.Why, diagnosis.Reason{Text: text})
	}
	return e
}

// verdict is the state of a Subscription with its reasons.
type verdict struct {
	state   State
	summary string
	why     []diagnosis.Reason
	advice  []string
}

// oneLineMessage returns the reason in one line.
func (v *verdict) oneLineMessage() string {
	if v.state == StateReady {
		return ""
	}
	text := v.summary
	if len(v.why) > 0 {
		text += ": " + v.why[0].Text
	}
	return strings.Join(strings.Fields(text), " ")
}

// newVerdict returns a verdict with at most one reason.
func newVerdict(state State, summary, why string, advice ...string) *verdict {
	v := &verdict{state: state, summary: summary, advice: advice}
	if why != "" {
		v.why = []diagnosis.Reason{{Text: formatSentence(why)}}
	}
	return v
}

// formatSentence returns a text as a sentence.
func formatSentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// explanationRules are the explanations in order: the first that applies is the cause of those below it.
var explanationRules = []func(*Facts) *verdict{
	explainDeletion, explainGroups, explainFailedOperator, explainCatalog, explainResolution, explainUnpacking,
	explainPlan, explainMissingOperator, explainOperator,
}

// assessFacts returns the verdict of the first rule that applies.
func assessFacts(f *Facts) *verdict {
	for _, rule := range explanationRules {
		if v := rule(f); v != nil {
			return v
		}
	}
	return newVerdict(StateUnknown, "catalog-operator has not reconciled it yet", "",
		"Check that it runs: kubectl get deployments -A | grep catalog-operator")
}

func explainDeletion(f *Facts) *verdict {
	if f.Subscription.DeletionTimestamp.IsZero() {
		return nil
	}
	return newVerdict(StateRemoving, "it is being removed", "")
}

// explainGroups explains a namespace without exactly one OperatorGroup, in which no operator is
// installed.
func explainGroups(f *Facts) *verdict {
	namespace := f.Subscription.Namespace
	switch {
	case f.areGroupsUnread || len(f.Groups) == 1:
		return nil
	case len(f.Groups) == 0:
		return newVerdict(StateFailed, "nothing can be installed in the namespace",
			fmt.Sprintf("namespace %s has no OperatorGroup, which states the namespaces that its operators watch", namespace),
			fmt.Sprintf("Create an OperatorGroup in namespace %s; an empty spec means all namespaces", namespace))
	}

	var names []string
	for i := range f.Groups {
		names = append(names, f.Groups[i].Name)
	}
	return newVerdict(StateFailed, "nothing can be installed in the namespace",
		fmt.Sprintf("namespace %s has %d OperatorGroups (%s), but only one is allowed", namespace, len(names), strings.Join(names, ", ")),
		"Delete all but one of them: kubectl delete operatorgroup NAME -n "+namespace)
}

// explainFailedOperator explains an installed operator that does not run.
func explainFailedOperator(f *Facts) *verdict {
	if f.CSV == nil || f.CSV.Status.Phase != v1alpha1.CSVPhaseFailed || f.Subscription.Status.InstalledCSV == "" {
		return nil
	}
	v := newVerdict(StateDegraded, f.CSV.Name+" does not run as it should", f.CSV.Status.Message)
	addRequirements(v, f.CSV)
	v.advice = []string{fmt.Sprintf("See the operator's Deployments and their pods: mainstay subscription status %s -n %s", f.Subscription.Name, f.Subscription.Namespace)}
	return v
}

// explainCatalog explains a catalog that does not exist or is not served.
func explainCatalog(f *Facts) *verdict {
	spec := f.Subscription.Spec
	catalog := spec.CatalogSourceNamespace + "/" + spec.CatalogSource
	state := failureState(f)
	switch {
	case f.isCatalogUnread:
		return nil
	case f.Catalog == nil:
		return newVerdict(state, "its catalog does not exist", "there is no CatalogSource "+catalog,
			"Create the CatalogSource, or name another in spec.source and spec.sourceNamespace; 'kubectl get catalogsources -A' lists those that exist")
	}

	why, advice := ExplainUnservedCatalog(f.Catalog)
	if why == "" {
		return nil
	}
	return newVerdict(state, "its catalog cannot be read", fmt.Sprintf("CatalogSource %s: %s", catalog, why), advice)
}

// ExplainUnservedCatalog returns why a CatalogSource does not answer queries, and what to do. Both are empty if it answers.
func ExplainUnservedCatalog(catalog *v1alpha1.CatalogSource) (why, advice string) {
	if isCatalogServing(catalog) {
		return "", ""
	}
	why = cmp.Or(catalog.Status.Message, "catalog-operator is not connected to it")
	return why, fmt.Sprintf("See the pod of the catalog: kubectl get pods -n %s -l olm.catalogSource=%s", catalog.Namespace, catalog.Name)
}

// isCatalogServing reports whether the catalog answers queries.
func isCatalogServing(catalog *v1alpha1.CatalogSource) bool {
	connection := catalog.Status.GRPCConnectionState
	return connection != nil && connection.LastObservedState == "READY"
}

// failureState returns StateDegraded if an installed operator runs nevertheless, and otherwise
// StateFailed.
func failureState(f *Facts) State {
	if f.CSV != nil && f.CSV.Status.Phase == v1alpha1.CSVPhaseSucceeded {
		return StateDegraded
	}
	return StateFailed
}

// explainResolution explains a namespace whose Subscriptions cannot be satisfied together.
func explainResolution(f *Facts) *verdict {
	condition := findCondition(f.Subscription, v1alpha1.SubscriptionResolutionFailed)
	if condition == nil {
		return nil
	}

	v := newVerdict(failureState(f), "no set of operators satisfies the Subscriptions of the namespace", condition.Message)
	if len(f.Siblings) > 0 {
		v.why = append(v.why, diagnosis.Reason{Text: fmt.Sprintf("The %d Subscriptions of namespace %s are resolved together, so the cause may be another of them. Those that do not depend on it continue.", len(f.Siblings)+1, f.Subscription.Namespace)})
	}

	spec := f.Subscription.Spec
	switch {
	case f.Package == nil && !f.arePackagesUnread:
		v.advice = append(v.advice, fmt.Sprintf("Correct spec.name: catalog %s/%s has no package %q; 'kubectl get packagemanifests -n %s' lists the packages",
			spec.CatalogSourceNamespace, spec.CatalogSource, spec.Package, f.Subscription.Namespace))
	case f.Package != nil && spec.Channel != "" && !slices.Contains(channelNames(f.Package), spec.Channel):
		v.advice = append(v.advice, fmt.Sprintf("Change the channel: mainstay subscription upgrade %s -n %s --channel %s; package %s has no channel %q but %s",
			f.Subscription.Name, f.Subscription.Namespace, f.Package.Status.DefaultChannel, spec.Package, spec.Channel, strings.Join(channelNames(f.Package), ", ")))
	default:
		v.advice = append(v.advice, "Change or remove one of the Subscriptions that the message names, or add the missing package to a catalog")
	}

	return v
}

// explainUnpacking explains a bundle image that is being pulled, or could not be.
func explainUnpacking(f *Facts) *verdict {
	if c := findCondition(f.Subscription, v1alpha1.SubscriptionBundleUnpackFailed); c != nil {
		return newVerdict(failureState(f), "a bundle could not be unpacked", c.Message,
			"Check that the nodes can pull the image that the message names; the Job in the namespace of the catalog has the details: kubectl get jobs,pods -n "+f.Subscription.Spec.CatalogSourceNamespace)
	}
	if c := findCondition(f.Subscription, v1alpha1.SubscriptionBundleUnpacking); c != nil {
		return newVerdict(progressState(f), "a bundle is being unpacked", c.Message)
	}
	return nil
}

// progressState returns StateUpdating if a version is installed, and otherwise StateInstalling.
func progressState(f *Facts) State {
	if f.Subscription.Status.InstalledCSV != "" {
		return StateUpdating
	}
	return StateInstalling
}

// explainPlan explains an InstallPlan that is not complete.
func explainPlan(f *Facts) *verdict {
	if f.Plan == nil {
		return nil
	}

	sub := f.Subscription
	installs := strings.Join(f.Plan.Spec.ClusterServiceVersionNames, ", ")
	switch f.Plan.Status.Phase {
	case v1alpha1.InstallPlanPhaseRequiresApproval:
		if f.Plan.Spec.Approved {
			return newVerdict(progressState(f), "the approved InstallPlan is about to start", "")
		}
		v := newVerdict(StateAwaitingApproval, "it waits for your approval", fmt.Sprintf("InstallPlan %s installs %s once it is approved", f.Plan.Name, installs),
			fmt.Sprintf("Show the plan and approve it: mainstay subscription approve %s -n %s", sub.Name, sub.Namespace))
		if len(f.Plan.Spec.ClusterServiceVersionNames) > 1 {
			v.why = append(v.why, diagnosis.Reason{Text: "The operators of an InstallPlan are installed together, because they need each other: the approval covers all of them."})
		}
		return v
	case v1alpha1.InstallPlanPhaseFailed:
		v := newVerdict(failureState(f), "its InstallPlan failed", describeFailedPlan(f.Plan),
			fmt.Sprintf("Remove the cause: OLM continues the plan within five minutes. To have another plan created instead: kubectl delete installplan %s -n %s", f.Plan.Name, sub.Namespace))
		return v
	case v1alpha1.InstallPlanPhaseComplete:
		return nil
	default:
		return newVerdict(progressState(f), "InstallPlan "+f.Plan.Name+" installs "+installs, "")
	}
}

// describeFailedPlan returns why a plan failed.
func describeFailedPlan(plan *v1alpha1.InstallPlan) string {
	for _, c := range plan.Status.Conditions {
		if c.Type == v1alpha1.InstallPlanInstalled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return "InstallPlan " + plan.Name + ": " + c.Message
		}
	}
	return "InstallPlan " + plan.Name + ": " + plan.Status.Message
}

// explainMissingOperator explains a Subscription whose ClusterServiceVersion does not exist.
func explainMissingOperator(f *Facts) *verdict {
	sub := f.Subscription
	name := csvName(sub)
	switch {
	case f.CSV != nil || len(f.Unread) > 0:
		return nil
	case name == "" && sub.Status.State == v1alpha1.SubscriptionStateNone:
		return nil
	case name == "":
		return newVerdict(StateInstalling, "OLM is choosing a version", "")
	case sub.Status.InstalledCSV == "":
		return newVerdict(StateInstalling, name+" is being created", "")
	}

	if c := findCondition(sub, v1alpha1.SubscriptionCSVMissing); c != nil {
		return newVerdict(StateInstalling, "the operator was removed, and is about to be installed again", c.Message,
			fmt.Sprintf("To uninstall it instead: mainstay subscription uninstall %s -n %s", sub.Name, sub.Namespace))
	}
	return newVerdict(StateFailed, "the operator was removed", fmt.Sprintf("ClusterServiceVersion %s does not exist, although the Subscription has installed it", name),
		fmt.Sprintf("Uninstall the Subscription and install it again: mainstay subscription uninstall %s -n %s", sub.Name, sub.Namespace))
}

// explainOperator explains the ClusterServiceVersion.
func explainOperator(f *Facts) *verdict {
	if f.CSV == nil {
		return nil
	}

	csv, sub := f.CSV, f.Subscription
	if isBeingReplaced(f) {
		return newVerdict(StateUpdating, csv.Name+" is being replaced by "+sub.Status.CurrentCSV, "")
	}

	switch csv.Status.Phase {
	case v1alpha1.CSVPhaseSucceeded:
		if c := findCondition(sub, v1alpha1.SubscriptionUpdatePathMissing); c != nil {
			return newVerdict(StateReady, csv.Name+" runs, but its channel cannot update it", c.Message)
		}
		v := newVerdict(StateReady, csv.Name+" runs, and is the newest version of its channel", "")
		if head := newerHead(f); head != "" {
			v = newVerdict(StateReady, csv.Name+" runs", fmt.Sprintf("the newest version of its channel is %s, and OLM has not planned the update yet", head))
		}
		addDeprecations(v, sub)
		return v
	case v1alpha1.CSVPhaseFailed:
		v := newVerdict(StateFailed, csv.Name+" could not be installed", csv.Status.Message,
			fmt.Sprintf("See the requirements and the Deployments: mainstay subscription status %s -n %s", sub.Name, sub.Namespace))
		addRequirements(v, csv)
		return v
	default:
		v := newVerdict(progressState(f), csv.Name+" is being installed", csv.Status.Message)
		addRequirements(v, csv)
		return v
	}
}

// isBeingReplaced reports whether another version replaces the installed one.
func isBeingReplaced(f *Facts) bool {
	switch f.CSV.Status.Phase {
	case v1alpha1.CSVPhaseSucceeded, v1alpha1.CSVPhaseReplacing, v1alpha1.CSVPhaseDeleting:
		status := f.Subscription.Status
		return status.CurrentCSV != "" && status.CurrentCSV != status.InstalledCSV
	}
	return false
}

// newerHead returns the newest version in the channel of a Subscription if another one is installed. It returns "" if the
// catalog is not known to have both.
func newerHead(f *Facts) string {
	if f.Package == nil {
		return ""
	}

	name := cmp.Or(f.Subscription.Spec.Channel, f.Package.Status.DefaultChannel)
	for _, channel := range f.Package.Status.Channels {
		isInstalled := func(e packagesv1.ChannelEntry) bool { return e.Name == f.CSV.Name }
		if channel.Name == name && channel.CurrentCSV != f.CSV.Name && slices.ContainsFunc(channel.Entries, isInstalled) {
			return channel.CurrentCSV
		}
	}
	return ""
}

// addRequirements adds the requirements that the cluster does not meet.
func addRequirements(v *verdict, csv *v1alpha1.ClusterServiceVersion) {
	for _, r := range csv.Status.RequirementStatus {
		if r.Status == v1alpha1.RequirementPresent {
			continue
		}

		why := diagnosis.Reason{Text: fmt.Sprintf("%s %s: %s.", r.Kind, r.Name, strings.TrimSuffix(strings.TrimSpace(r.Status+" "+r.Message), "."))}
		for _, d := range r.Dependents {
			if d.Status != v1alpha1.DependentSatisfied {
				why.Because = append(why.Because, diagnosis.Reason{Text: formatSentence(d.Message)})
			}
		}
		v.why = append(v.why, why)
	}
}

// addDeprecations adds what the catalog says about a deprecated package, channel or version.
func addDeprecations(v *verdict, subscription *v1alpha1.Subscription) {
	for _, kind := range []string{v1alpha1.SubscriptionPackageDeprecated, v1alpha1.SubscriptionChannelDeprecated, v1alpha1.SubscriptionBundleDeprecated} {
		if c := findCondition(subscription, kind); c != nil {
			v.why = append(v.why, diagnosis.Reason{Text: formatSentence("deprecated: " + c.Message)})
		}
	}
}

// findCondition returns a condition that is True, or nil.
func findCondition(subscription *v1alpha1.Subscription, kind string) *v1alpha1.SubscriptionCondition {
	for i, c := range subscription.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return &subscription.Status.Conditions[i]
		}
	}
	return nil
}

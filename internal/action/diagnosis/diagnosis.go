// Package diagnosis explains the state of an extension in sentences: what it is, why it is
// so, and what a person can do about it.
//
// It is told facts and reads nothing itself. What it says follows from the conditions that
// the controllers report, and from the objects that they wait for; it knows the common
// causes, and repeats the cluster's own words where it knows no better.
package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// Facts are what is known of an extension.
type Facts struct {
	Extension *olmv1.ClusterExtension
	// Revisions of the extension, oldest first.
	Revisions []olmv1.ClusterObjectSet
	// Awaited are the objects of the newest active revision that are not ready, in the
	// phases that have begun.
	Awaited []Awaited
	// Catalogs are those that the extension selects.
	Catalogs []olmv1.ClusterCatalog
	// Unread says what could not be read, such as for lack of a right.
	Unread []string
}

// Awaited is an object that is not ready, and what stands below it.
type Awaited struct {
	Kind, Namespace, Name string
	// Message says what it lacks.
	Message     string
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod
	// Events about the object, and about those below it.
	Events []corev1.Event
}

// Explanation is why an extension is as it is.
type Explanation struct {
	Name string `json:"name"`
	// Summary says in a line how it stands.
	Summary string `json:"summary"`
	// Why returns the reasons. Empty when all is well.
	Why []Reason `json:"why,omitempty"`
	// Do returns what a person can do, the most likely first. Empty when nothing has to be
	// done.
	Do []string `json:"do,omitempty"`
}

// Reason is a sentence, and those that it follows from.
type Reason struct {
	Text    string   `json:"text"`
	Because []Reason `json:"because,omitempty"`
}

// Explain makes the explanation.
func Explain(facts Facts) Explanation {
	e := &explainer{Facts: facts, name: facts.Extension.Name}
	e.explain()
	return Explanation{Name: e.name, Summary: e.summary, Why: e.why, Do: slices.Compact(e.do)}
}

// explainer collects an explanation.
type explainer struct {
	Facts
	name    string
	summary string
	why     []Reason
	do      []string
}

func (e *explainer) because(text string, below ...Reason) {
	e.why = append(e.why, Reason{Text: text, Because: below})
}

// advise adds what can be done, once.
func (e *explainer) advise(advice string) {
	if advice != "" && !slices.Contains(e.do, advice) {
		e.do = append(e.do, advice)
	}
}

// explain tells the cases apart by the condition Progressing, which says what the
// controller does, and why it cannot go on.
func (e *explainer) explain() {
	ext := e.Extension
	progressing := e.condition(olmv1.TypeProgressing)
	switch {
	case !ext.DeletionTimestamp.IsZero():
		e.removal(progressing)
	case progressing == nil || progressing.ObservedGeneration < ext.Generation:
		e.summary = "the operator-controller has not looked at its latest change yet"
		e.advise("Check that it runs: kubectl get deployments -A -l app.kubernetes.io/name=operator-controller")
	case progressing.Reason == olmv1.ReasonSucceeded && ext.Annotations[olmv1.AnnotationPlan] == olmv1.PlanOnly:
		e.plannedOnly(progressing)
	case progressing.Status == metav1.ConditionTrue && progressing.Reason == olmv1.ReasonSucceeded:
		e.settled()
	case progressing.Reason == olmv1.ReasonProgressDeadlineExceeded && e.newest() != nil && succeeded(e.newest()):
		e.rolledBack(progressing)
	case progressing.Reason == olmv1.ReasonRollingOut, progressing.Reason == olmv1.ReasonProgressDeadlineExceeded:
		e.rollingOut(progressing)
	default:
		e.heldUp(progressing)
	}

	e.deprecations()
	for _, unread := range e.Unread {
		e.because(unread)
	}
}

func (e *explainer) removal(progressing *metav1.Condition) {
	e.summary = "it is being removed"
	if progressing == nil || progressing.Message == "" {
		return
	}

	e.because(sentence(progressing.Message))
	if strings.Contains(progressing.Message, "held by finalizer") {
		e.advise("Wait for the controller that set the finalizer; if it does not run any more, remove the finalizer from the object by hand, after doing what it would have done")
	}
}

// settled explains an extension that is what it is wanted to be.
func (e *explainer) settled() {
	bundle := e.installed()
	pin := ""
	if e.Extension.Spec.Source.Catalog != nil && pinned(e.Extension.Spec.Source.Catalog.Version) {
		pin = "; it is pinned to that version, so that no update is made by itself"
	}

	available := e.condition(olmv1.TypeAvailable)
	switch {
	case available != nil && available.Status == metav1.ConditionFalse:
		e.summary = fmt.Sprintf("%s is installed, but not all of it runs", bundle)
		e.awaited(sentence(available.Message))
	case available != nil && available.Status == metav1.ConditionUnknown:
		e.summary = fmt.Sprintf("%s is installed; whether all of it runs is not known", bundle)
		e.because(sentence(available.Message))
	default:
		e.summary = fmt.Sprintf("%s is installed and runs%s", bundle, pin)
	}
}

// plannedOnly explains an extension of which nothing but a plan is wanted.
func (e *explainer) plannedOnly(progressing *metav1.Condition) {
	e.summary = "nothing is done about it: only a plan of what would be done is wanted"
	e.because(sentence(progressing.Message))
	e.advise(fmt.Sprintf("See the plan: 'mainstay extension plan %s'", e.Extension.Name))
	e.advise(fmt.Sprintf("To have it done, remove the annotation: kubectl annotate clusterextension %s %s-", e.Extension.Name, olmv1.AnnotationPlan))
}

// rollingOut explains a revision that is on its way, in time or late.
func (e *explainer) rollingOut(progressing *metav1.Condition) {
	newest := e.newest()
	switch {
	case newest == nil || succeeded(newest):
		e.summary = e.doing()
	case progressing.Reason == olmv1.ReasonProgressDeadlineExceeded:
		e.summary = fmt.Sprintf("%s %s is late", e.kindOfChange(), bundleOf(newest))
	default:
		e.summary = fmt.Sprintf("%s %s is on its way", e.kindOfChange(), bundleOf(newest))
	}

	e.awaited(sentence(progressing.Message))
	e.offerReturn()
}

// rolledBack explains an update that was given up by the controller.
func (e *explainer) rolledBack(progressing *metav1.Condition) {
	e.summary = fmt.Sprintf("an update was given up as it was late; %s is still installed", e.installed())
	e.because(sentence(progressing.Message))
	if available := e.condition(olmv1.TypeAvailable); available != nil && available.Status == metav1.ConditionFalse {
		e.awaited("What is installed does not run either: " + period(available.Message))
	}
	e.advise("See what the update would change: mainstay extension diff " + e.name)
	e.advise("To try it again, change the spec: a longer progressDeadlineMinutes, or other configuration. Another version in the catalog is tried by itself")
}

// heldUp explains what could not be done.
func (e *explainer) heldUp(progressing *metav1.Condition) {
	again := "the last attempt failed, and another is made by itself"
	if progressing.Status == metav1.ConditionFalse {
		again = "nothing more happens until somebody changes something"
	}

	e.summary = e.doing() + "; " + again
	lines := strings.Split(strings.TrimSpace(progressing.Message), "\n")
	var below []Reason
	for _, line := range lines[1:] {
		below = append(below, Reason{Text: strings.TrimSpace(line)})
	}

	e.because(sentence(lines[0]), below...)
	e.catalogs(progressing.Message)
	e.advise(capital(Advice(SubjectOf(e.Extension), progressing.Reason, progressing.Message)))
	if newest := e.newest(); newest != nil && (!succeeded(newest) || len(e.Awaited) > 0) {
		e.awaited("")
	}

	e.offerReturn()
}

// catalogs explains a bundle that was not found by the catalogs that cannot be read.
func (e *explainer) catalogs(message string) {
	if !strings.Contains(message, "no bundles found") && !strings.Contains(message, "catalog") {
		return
	}

	if len(e.Catalogs) == 0 {
		e.because("No catalog on the cluster is one that it selects.")
		e.advise("Add a catalog with 'mainstay catalog add', or change spec.source.catalog.selector")
		return
	}

	for i := range e.Catalogs {
		catalog := &e.Catalogs[i]
		serving := meta.FindStatusCondition(catalog.Status.Conditions, olmv1.TypeServing)
		if serving != nil && serving.Status == metav1.ConditionTrue {
			continue
		}

		text := fmt.Sprintf("Catalog %s is not served", catalog.Name)
		var below []Reason
		if c := meta.FindStatusCondition(catalog.Status.Conditions, olmv1.TypeProgressing); c != nil && c.Reason != olmv1.ReasonSucceeded && c.Message != "" {
			below = append(below, Reason{Text: sentence(c.Message)})
		}
		if serving != nil && serving.Reason == olmv1.ReasonUserSpecifiedUnavailable {
			text += ", as its spec.availabilityMode is Unavailable"
		}

		e.because(text+".", below...)
		e.advise("Get the catalogs served that are not: 'mainstay catalog list' shows them")
	}
}

// offerReturn says how to go back, where an older revision still serves.
func (e *explainer) offerReturn() {
	newest := e.newest()
	if newest == nil || succeeded(newest) {
		return
	}

	for i := range slices.Backward(e.Revisions) {
		set := &e.Revisions[i]
		if active(set) && succeeded(set) && bundleOf(set) != bundleOf(newest) {
			e.advise(fmt.Sprintf("Go back to %s, which is still in place: mainstay extension rollback %s", bundleOf(set), e.name))
			return
		}
	}
}

// deprecations repeats what the catalog says of the package, its channel and the bundle.
func (e *explainer) deprecations() {
	for _, kind := range []string{olmv1.TypePackageDeprecated, olmv1.TypeChannelDeprecated, olmv1.TypeBundleDeprecated} {
		if c := e.condition(kind); c != nil && c.Status == metav1.ConditionTrue {
			what := strings.ToLower(strings.TrimSuffix(kind, "Deprecated"))
			e.because(fmt.Sprintf("Its %s is deprecated.", what), Reason{Text: period(c.Message)})
		}
	}
}

// doing says what the controller wants to do, whether or not it has begun.
func (e *explainer) doing() string {
	newest := e.newest()
	switch {
	case newest != nil && !succeeded(newest):
		return fmt.Sprintf("%s %s has begun", e.kindOfChange(), bundleOf(newest))
	case e.Extension.Status.Install != nil:
		return e.installed() + " is installed"
	default:
		return "nothing is installed yet"
	}
}

func (e *explainer) kindOfChange() string {
	if e.Extension.Status.Install != nil {
		return "the update from " + e.installed() + " to"
	}
	return "the installation of"
}

func (e *explainer) installed() string {
	if e.Extension.Status.Install == nil {
		return "nothing"
	}
	return e.Extension.Status.Install.Bundle.Name
}

func (e *explainer) condition(kind string) *metav1.Condition {
	return meta.FindStatusCondition(e.Extension.Status.Conditions, kind)
}

// newest is the last active revision.
func (e *explainer) newest() *olmv1.ClusterObjectSet {
	for i := range slices.Backward(e.Revisions) {
		if active(&e.Revisions[i]) {
			return &e.Revisions[i]
		}
	}
	return nil
}

func active(set *olmv1.ClusterObjectSet) bool {
	return set.Spec.LifecycleState == olmv1.LifecycleStateActive && set.DeletionTimestamp.IsZero()
}

func succeeded(set *olmv1.ClusterObjectSet) bool {
	return meta.IsStatusConditionTrue(set.Status.Conditions, olmv1.TypeSucceeded)
}

func bundleOf(set *olmv1.ClusterObjectSet) string {
	return cmp.Or(set.Annotations[olmv1.AnnotationBundleName], set.Name)
}

// pinned reports whether a version is one, and no range.
func pinned(version string) bool {
	return version != "" && !strings.ContainsAny(version, "<>=~^|, xX*") && strings.Count(version, ".") >= 2
}

// sentence begins a message with a capital letter, and ends it.
func sentence(message string) string { return capital(period(message)) }

// period ends a message.
func period(message string) string {
	message = strings.TrimSpace(message)
	if message == "" || strings.HasSuffix(message, ".") || strings.HasSuffix(message, ":") {
		return message
	}
	return message + "."
}

// capital begins a text with a capital letter.
func capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

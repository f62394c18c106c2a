// Package diagnosis explains the state of an extension in sentences: the state, its
// reasons, and what a user can do.
//
// It evaluates facts and reads nothing from the cluster. The explanation follows from the
// conditions of the controllers and from the objects that they are waiting for. It covers
// common causes and otherwise repeats the messages of the cluster.
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

// Facts are the inputs of an explanation.
type Facts struct {
	Extension *olmv1.ClusterExtension
	// Revisions are the revisions of the extension, the oldest first.
	Revisions []olmv1.ClusterObjectSet
	// Awaited are the objects of the newest active revision that are not ready, in the
	// phases that have started.
	Awaited []AwaitedObject
	// Catalogs are the catalogs that the extension selects.
	Catalogs []olmv1.ClusterCatalog
	// Unread are sentences about objects that could not be read, for example because of
	// missing permissions.
	Unread []string
}

// AwaitedObject is an object that is not ready, with the objects that it owns.
type AwaitedObject struct {
	Kind, Namespace, Name string
	// Message says what the object lacks.
	Message     string
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod
	// Events are the events about the object and the objects that it owns.
	Events []corev1.Event
}

// Explanation explains the state of an extension.
type Explanation struct {
	Name string `json:"name"`
	// Summary is the state in one line.
	Summary string `json:"summary"`
	// Why are the reasons. It is empty if there is no problem.
	Why []Reason `json:"why,omitempty"`
	// Do is the advice for the user, the most likely first. It is empty if nothing needs to
	// be done.
	Do []string `json:"do,omitempty"`
}

// Reason is a sentence with the reasons that it follows from.
type Reason struct {
	Text    string   `json:"text"`
	Because []Reason `json:"because,omitempty"`
}

// Explain returns the explanation of the facts.
func Explain(facts Facts) Explanation {
	e := &explainer{Facts: facts, name: facts.Extension.Name}
	e.explainState()
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

// addReason adds a reason with the reasons that it follows from.
func (e *explainer) addReason(text string, below ...Reason) {
	e.why = append(e.why, Reason{Text: text, Because: below})
}

// addAdvice adds advice unless it is empty or already present.
func (e *explainer) addAdvice(advice string) {
	if advice != "" && !slices.Contains(e.do, advice) {
		e.do = append(e.do, advice)
	}
}

// explainState selects the explanation by the condition Progressing, which says what the
// controller is doing and what blocks it.
func (e *explainer) explainState() {
	ext := e.Extension
	progressing := e.findCondition(olmv1.TypeProgressing)
	switch {
	case !ext.DeletionTimestamp.IsZero():
		e.explainRemoval(progressing)
	case progressing == nil || progressing.ObservedGeneration < ext.Generation:
		e.summary = "operator-controller has not reconciled its latest change yet"
		e.addAdvice("Check that it runs: kubectl get deployments -A -l app.kubernetes.io/name=operator-controller")
	case progressing.Reason == olmv1.ReasonSucceeded && ext.Annotations[olmv1.AnnotationPlan] == olmv1.PlanOnly:
		e.explainPlannedOnly(progressing)
	case progressing.Status == metav1.ConditionTrue && progressing.Reason == olmv1.ReasonSucceeded:
		e.explainInstalled()
	case progressing.Reason == olmv1.ReasonProgressDeadlineExceeded && e.newestActiveRevision() != nil && isRolledOut(e.newestActiveRevision()):
		e.explainRollback(progressing)
	case progressing.Reason == olmv1.ReasonRollingOut, progressing.Reason == olmv1.ReasonProgressDeadlineExceeded:
		e.explainRollout(progressing)
	default:
		e.explainFailure(progressing)
	}

	e.explainDeprecations()
	for _, unread := range e.Unread {
		e.addReason(unread)
	}
}

// explainRemoval explains an extension that is being deleted.
func (e *explainer) explainRemoval(progressing *metav1.Condition) {
	e.summary = "it is being removed"
	if progressing == nil || progressing.Message == "" {
		return
	}

	e.addReason(formatSentence(progressing.Message))
	if strings.Contains(progressing.Message, "held by finalizer") {
		e.addAdvice("Wait for the controller that set the finalizer; if that controller no longer runs, do its cleanup manually and remove the finalizer from the object")
	}
}

// explainInstalled explains an extension whose requested bundle is installed.
func (e *explainer) explainInstalled() {
	bundle := e.installedBundleName()
	pin := ""
	if e.Extension.Spec.Source.Catalog != nil && isPinnedVersion(e.Extension.Spec.Source.Catalog.Version) {
		pin = "; it is pinned to that version, so that it is not updated automatically"
	}

	available := e.findCondition(olmv1.TypeAvailable)
	switch {
	case available != nil && available.Status == metav1.ConditionFalse:
		e.summary = fmt.Sprintf("%s is installed, but not all of it runs", bundle)
		e.explainAwaitedObjects(formatSentence(available.Message))
	case available != nil && available.Status == metav1.ConditionUnknown:
		e.summary = fmt.Sprintf("%s is installed; it is unknown whether all of it runs", bundle)
		e.addReason(formatSentence(available.Message))
	default:
		e.summary = fmt.Sprintf("%s is installed and runs%s", bundle, pin)
	}
}

// explainPlannedOnly explains an extension in plan-only mode.
func (e *explainer) explainPlannedOnly(progressing *metav1.Condition) {
	e.summary = "it is not reconciled: only a plan is requested"
	e.addReason(formatSentence(progressing.Message))
	e.addAdvice(fmt.Sprintf("See the plan: 'mainstay extension plan %s'", e.Extension.Name))
	e.addAdvice(fmt.Sprintf("To carry it out, remove the annotation: kubectl annotate clusterextension %s %s-", e.Extension.Name, olmv1.AnnotationPlan))
}

// explainRollout explains a rollout that is in progress or has exceeded its deadline.
func (e *explainer) explainRollout(progressing *metav1.Condition) {
	newest := e.newestActiveRevision()
	switch {
	case newest == nil || isRolledOut(newest):
		e.summary = e.describeCurrentChange()
	case progressing.Reason == olmv1.ReasonProgressDeadlineExceeded:
		e.summary = fmt.Sprintf("%s %s has exceeded its progress deadline", e.describeChangeKind(), revisionBundleName(newest))
	default:
		e.summary = fmt.Sprintf("%s %s is in progress", e.describeChangeKind(), revisionBundleName(newest))
	}

	e.explainAwaitedObjects(formatSentence(progressing.Message))
	e.adviseRollback()
}

// explainRollback explains an update that the controller has rolled back.
func (e *explainer) explainRollback(progressing *metav1.Condition) {
	e.summary = fmt.Sprintf("an update was rolled back because it exceeded its progress deadline; %s is still installed", e.installedBundleName())
	e.addReason(formatSentence(progressing.Message))
	if available := e.findCondition(olmv1.TypeAvailable); available != nil && available.Status == metav1.ConditionFalse {
		e.explainAwaitedObjects("The installed bundle is not available either: " + ensureFullStop(available.Message))
	}
	e.addAdvice("See what the update would change: mainstay extension diff " + e.name)
	e.addAdvice("To try it again, change the spec: a longer progressDeadlineMinutes, or other configuration. A new version in the catalog is tried automatically")
}

// explainFailure explains a failed or blocked attempt.
func (e *explainer) explainFailure(progressing *metav1.Condition) {
	again := "the last attempt failed and will be retried"
	if progressing.Status == metav1.ConditionFalse {
		again = "nothing more happens until a user intervenes"
	}

	e.summary = e.describeCurrentChange() + "; " + again
	lines := strings.Split(strings.TrimSpace(progressing.Message), "\n")
	var below []Reason
	for _, line := range lines[1:] {
		below = append(below, Reason{Text: strings.TrimSpace(line)})
	}

	e.addReason(formatSentence(lines[0]), below...)
	e.explainUnservedCatalogs(progressing.Message)
	e.addAdvice(capitalizeFirst(Advice(SubjectOf(e.Extension), progressing.Reason, progressing.Message)))
	if newest := e.newestActiveRevision(); newest != nil && (!isRolledOut(newest) || len(e.Awaited) > 0) {
		e.explainAwaitedObjects("")
	}

	e.adviseRollback()
}

// explainUnservedCatalogs names the catalogs that are not served as a possible reason for a
// missing bundle.
func (e *explainer) explainUnservedCatalogs(message string) {
	if !strings.Contains(message, "no bundles found") && !strings.Contains(message, "catalog") {
		return
	}

	if len(e.Catalogs) == 0 {
		e.addReason("It selects none of the catalogs on the cluster.")
		e.addAdvice("Add a catalog with 'mainstay catalog add', or change spec.source.catalog.selector")
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
			below = append(below, Reason{Text: formatSentence(c.Message)})
		}
		if serving != nil && serving.Reason == olmv1.ReasonUserSpecifiedUnavailable {
			text += ", as its spec.availabilityMode is Unavailable"
		}

		e.addReason(text+".", below...)
		e.addAdvice("Make sure that all selected catalogs are served: 'mainstay catalog list' shows their state")
	}
}

// adviseRollback adds the advice to roll back if an older revision is still active.
func (e *explainer) adviseRollback() {
	newest := e.newestActiveRevision()
	if newest == nil || isRolledOut(newest) {
		return
	}

	for i := range slices.Backward(e.Revisions) {
		set := &e.Revisions[i]
		if isActiveRevision(set) && isRolledOut(set) && revisionBundleName(set) != revisionBundleName(newest) {
			e.addAdvice(fmt.Sprintf("Roll back to %s, which is still in place: mainstay extension rollback %s", revisionBundleName(set), e.name))
			return
		}
	}
}

// explainDeprecations adds the deprecations of the package, its channel and the bundle.
func (e *explainer) explainDeprecations() {
	for _, kind := range []string{olmv1.TypePackageDeprecated, olmv1.TypeChannelDeprecated, olmv1.TypeBundleDeprecated} {
		if c := e.findCondition(kind); c != nil && c.Status == metav1.ConditionTrue {
			what := strings.ToLower(strings.TrimSuffix(kind, "Deprecated"))
			e.addReason(fmt.Sprintf("Its %s is deprecated.", what), Reason{Text: ensureFullStop(c.Message)})
		}
	}
}

// describeCurrentChange returns the change that the controller is working on, or what is
// installed.
func (f *Facts) describeCurrentChange() string {
	newest := f.newestActiveRevision()
	switch {
	case newest != nil && !isRolledOut(newest):
		return fmt.Sprintf("%s %s has begun", f.describeChangeKind(), revisionBundleName(newest))
	case f.Extension.Status.Install != nil:
		return f.installedBundleName() + " is installed"
	default:
		return "nothing is installed yet"
	}
}

// describeChangeKind returns whether the change is an installation or an update.
func (f *Facts) describeChangeKind() string {
	if f.Extension.Status.Install != nil {
		return "the update from " + f.installedBundleName() + " to"
	}
	return "the installation of"
}

// installedBundleName returns the name of the installed bundle, or "nothing".
func (f *Facts) installedBundleName() string {
	if f.Extension.Status.Install == nil {
		return "nothing"
	}
	return f.Extension.Status.Install.Bundle.Name
}

// findCondition returns the condition of a type, or nil.
func (f *Facts) findCondition(kind string) *metav1.Condition {
	return meta.FindStatusCondition(f.Extension.Status.Conditions, kind)
}

// newestActiveRevision returns the last active revision, or nil.
func (f *Facts) newestActiveRevision() *olmv1.ClusterObjectSet {
	for i := range slices.Backward(f.Revisions) {
		if isActiveRevision(&f.Revisions[i]) {
			return &f.Revisions[i]
		}
	}
	return nil
}

func isActiveRevision(set *olmv1.ClusterObjectSet) bool {
	return set.Spec.LifecycleState == olmv1.LifecycleStateActive && set.DeletionTimestamp.IsZero()
}

func isRolledOut(set *olmv1.ClusterObjectSet) bool {
	return meta.IsStatusConditionTrue(set.Status.Conditions, olmv1.TypeSucceeded)
}

func revisionBundleName(set *olmv1.ClusterObjectSet) string {
	return cmp.Or(set.Annotations[olmv1.AnnotationBundleName], set.Name)
}

// isPinnedVersion reports whether a version constraint is a single version and not a range.
func isPinnedVersion(version string) bool {
	return version != "" && !strings.ContainsAny(version, "<>=~^|, xX*") && strings.Count(version, ".") >= 2
}

// formatSentence capitalizes a message and ends it with a full stop.
func formatSentence(message string) string { return capitalizeFirst(ensureFullStop(message)) }

// ensureFullStop ends a message with a full stop unless it ends with one or with a colon.
func ensureFullStop(message string) string {
	message = strings.TrimSpace(message)
	if message == "" || strings.HasSuffix(message, ".") || strings.HasSuffix(message, ":") {
		return message
	}
	return message + "."
}

// capitalizeFirst capitalizes the first letter of a text.
func capitalizeFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

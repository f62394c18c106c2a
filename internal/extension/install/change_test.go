package install

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// TestDecideChange tests the facts of a change in the order in which they are read. Revisions are
// written as <number><state>:<bundle>, with the states of parseRevision.
func TestDecideChange(t *testing.T) {
	created := dependencyExtension{extension: &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "provider"}}}
	unmet := reconcile.Wait(olmv1.ReasonRetrying, resolutionRetryInterval, errors.New("unmet"))
	ok := &finding{}
	v2 := factsOfBundle("v2")
	for _, tc := range []struct {
		name      string
		revisions []string
		facts     changeFacts
		want      string
	}{
		{"a first installation begins with its target", nil, changeFacts{}, "none, needs target"},
		{"without a target it ends", nil, changeFacts{target: failed("no namespace")}, "none, stop: no namespace, needs resolution"},
		{"an update begins with the choice", []string{"1S:v1"}, changeFacts{}, "none, needs resolution"},
		{"no bundle fits", []string{"1S:v1"}, changeFacts{resolution: &resolution{err: errors.New("none fits")}}, "none, stop: none fits"},
		{"then the inputs", []string{"1S:v1"}, changeFacts{resolution: v2.resolution}, "none, needs inputs"},
		{"the inputs are not known", []string{"1S:v1"}, changeFacts{resolution: v2.resolution, inputs: &revisionInputs{err: errors.New("no answer")}}, "none, stop: no answer"},

		{"the newest has it", []string{"1S:v1", "2A:v2"}, v2, "none, sync ext-2"},
		{"the newest has it, and is complete", []string{"1S:v1", "2S:v2"}, v2, "none, sync ext-2"},
		{"the installed one has it", []string{"1S:v2", "2A:v1", "3A:v3"}, v2, "go back to ext-1, needs objects"},
		{"its objects are lost", []string{"1S:v2", "2A:v1"}, with(v2, func(f *changeFacts) { f.objects = &revisionObjects{err: errors.New("no Secret")} }), "go back to ext-1, stop: no Secret"},
		{"going back is checked", []string{"1S:v2", "2A:v1"}, with(v2, func(f *changeFacts) { f.objects = &revisionObjects{} }), "go back to ext-1, needs preflight"},
		{"going back is unsafe", []string{"1S:v2", "2A:v1"}, with(v2, func(f *changeFacts) { f.objects, f.preflight = &revisionObjects{}, failed("unsafe") }), "go back to ext-1, stop: unsafe"},
		{"it goes back", []string{"1S:v2", "2A:v1", "3A:v3"}, with(v2, func(f *changeFacts) { f.objects, f.preflight = &revisionObjects{}, ok }), "go back to ext-1, archive ext-3 ext-2"},
		{"an archived revision does not come back", []string{"1X:v2", "2S:v1"}, v2, "update, needs target"},

		{"an update was abandoned", []string{"1S:v1", "2R:v2"}, v2, `update, stop: the update to bundle "v2" was abandoned, and bundle "v1" stays installed; it is tried again when the spec changes, and another bundle as soon as the catalogs offer it: late, needs target`},
		{"an update needs its target", []string{"1S:v1"}, v2, "update, needs target"},
		{"its target is missing", []string{"1S:v1"}, with(v2, func(f *changeFacts) { f.target = failed("no account") }), "update, stop: no account, needs content"},
		{"then its content", []string{"1S:v1"}, with(v2, func(f *changeFacts) { f.target = ok }), "update, needs content"},
		{"the content is being pulled", nil, with(v2, func(f *changeFacts) { f.target, f.content = ok, &contentFacts{err: errors.New("pulling")} }), "install, stop: pulling"},
		{"then its dependencies", []string{"1S:v1"}, rendered(v2), "update, needs dependencies"},
		{"the same bundle with other objects depends on nothing new", []string{"1S:v2,old"}, rendered(v2), "change, needs preflight"},
		{"a requirement is not met", []string{"1S:v1"}, with(rendered(v2), func(f *changeFacts) { f.dependencies = &dependencyFindings{err: unmet} }), "update, stop: unmet, needs preflight"},
		{"an extension is created for it", nil, with(rendered(v2), func(f *changeFacts) {
			f.dependencies = &dependencyFindings{create: []dependencyExtension{created}, awaited: []string{"other"}}
		}), "install, creates provider, stop: waiting for its dependencies, to be installed as extensions of their own: other, provider, needs preflight"},
		{"one is created, and another has no name left", nil, with(rendered(v2), func(f *changeFacts) {
			f.dependencies = &dependencyFindings{create: []dependencyExtension{created}, err: errors.New("taken")}
		}), "install, creates provider, stop: taken, needs preflight"},
		{"then it is checked", nil, met(v2), "install, needs preflight"},
		{"the checks fail", nil, with(met(v2), func(f *changeFacts) { f.preflight = failed("no rights") }), "install, stop: no rights"},
		{"it is installed", nil, with(met(v2), func(f *changeFacts) { f.preflight = ok }), "install, create"},
		{"it is updated", []string{"1S:v1"}, with(met(v2), func(f *changeFacts) { f.preflight = ok }), "update, create"},
		{"it is changed", []string{"1S:v2,old"}, with(met(v2), func(f *changeFacts) { f.preflight = ok }), "change, create"},

		{"the newest has the same content", []string{"1S:v2,old"}, identicalTo(v2, "ext-1"), "none, annotate ext-1"},
		{"the installed one has the same content", []string{"1S:v2,old", "2A:v1"}, with(identicalTo(v2, "ext-1"), func(f *changeFacts) {
			f.objects, f.preflight = &revisionObjects{}, ok
		}), "go back to ext-1, annotate ext-1, archive ext-2"},
		{"it is annotated even if it cannot go back", []string{"1S:v2,old", "2A:v1"}, with(identicalTo(v2, "ext-1"), func(f *changeFacts) {
			f.objects, f.preflight = &revisionObjects{}, failed("unsafe")
		}), "go back to ext-1, annotate ext-1, stop: unsafe"},
		{"nothing is written after a problem", []string{"1S:v1"}, with(identicalTo(v2, "ext-1"), func(f *changeFacts) {
			f.dependencies, f.target = &dependencyFindings{err: unmet}, failed("no account")
		}), "none, stop: no account"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.facts.revisions = parseRevisions(tc.revisions)
			ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "ext", Generation: 7}}
			if diff := cmp.Diff(tc.want, describeChange(decideChange(ext, &tc.facts))); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecideChangeFindsAllProblems uses the facts of a plan: all of them are read, regardless of
// problems. The controller would have stopped at the first problem.
func TestDecideChangeFindsAllProblems(t *testing.T) {
	facts := with(rendered(factsOfBundle("v2")), func(f *changeFacts) {
		f.revisions = parseRevisions([]string{"1S:v1", "2R:v2"})
		f.target = failed("no namespace")
		f.dependencies = &dependencyFindings{awaited: []string{"b", "a"}}
		f.preflight = failed("no rights")
	})
	d := decideChange(&olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Generation: 7}}, &facts)
	var got []string
	for _, problem := range d.problems {
		got = append(got, problem.check)
	}
	if diff := cmp.Diff([]string{checkTarget, checkRollback, checkDependencies, ""}, got); diff != "" {
		t.Errorf("checks with problems (-want +got):\n%s", diff)
	}
	if d.stop == nil || d.stop.Error() != "no namespace" || d.create {
		t.Errorf("got stop %v, creates a revision: %v; want the first problem", d.stop, d.create)
	}
}

// factsOfBundle returns the facts of a change to a bundle, up to its inputs.
func factsOfBundle(name string) changeFacts {
	return changeFacts{
		resolution: &resolution{chosen: selection{Name: name, Version: "1.0.0"}},
		inputs:     &revisionInputs{digest: name},
	}
}

// rendered adds the target and the content.
func rendered(f changeFacts) changeFacts {
	return with(f, func(f *changeFacts) {
		f.target, f.content = &finding{}, &contentFacts{revisionContent: &revisionContent{}}
	})
}

// met adds that all requirements are met.
func met(f changeFacts) changeFacts {
	return with(rendered(f), func(f *changeFacts) { f.dependencies = &dependencyFindings{} })
}

// identicalTo adds that a revision has the content.
func identicalTo(f changeFacts, revision string) changeFacts {
	return with(met(f), func(f *changeFacts) { f.content.identical = revision })
}

func with(f changeFacts, edit func(*changeFacts)) changeFacts {
	edit(&f)
	return f
}

func failed(text string) *finding { return &finding{errors.New(text)} }

// parseRevisions returns the revisions of texts such as 1S:v1. The digest of the inputs of a
// revision is the name of its bundle, unless another follows after a comma. R is the state of an
// update that was refused for generation 7.
func parseRevisions(texts []string) revisions {
	var revs revisions
	for _, text := range texts {
		state, name, _ := strings.Cut(text, ":")
		name, digest, _ := strings.Cut(name, ",")
		refused := strings.HasSuffix(state, "R")
		set := parseRevision(strings.Replace(state, "R", "X", 1))
		set.Annotations = map[string]string{
			olmv1.AnnotationBundleName: name, olmv1.AnnotationBundleVersion: "1.0.0", annotationInputs: name,
		}
		if digest != "" {
			set.Annotations[annotationInputs] = digest
		}
		if refused {
			set.Annotations[olmv1.AnnotationRefusedGeneration], set.Annotations[olmv1.AnnotationFailure] = "7", "late"
		}
		revs = append(revs, set)
	}

	return sortRevisions(revs)
}

// describeChange returns a decision as text.
func describeChange(d *change) string {
	words := []string{d.action}
	if d.rollBackTo != "" {
		words[0] += " to " + d.rollBackTo
	}

	var created []string
	for _, dependency := range d.createExtensions {
		created = append(created, dependency.extension.Name)
	}
	for _, part := range []struct{ verb, what string }{
		{"creates ", strings.Join(created, " ")}, {"annotate ", d.annotate}, {"archive ", strings.Join(d.archive, " ")}, {"sync ", d.sync},
	} {
		if part.what != "" {
			words = append(words, part.verb+part.what)
		}
	}

	if d.create {
		words = append(words, "create")
	}
	if d.stop != nil {
		words = append(words, fmt.Sprintf("stop: %v", d.stop))
	}
	if d.needs != "" {
		words = append(words, "needs "+string(d.needs))
	}

	return strings.Join(slices.Compact(words), ", ")
}

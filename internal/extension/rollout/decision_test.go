package rollout

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

func newContent(data string) *apply.Content {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "ns"}, "data": map[string]any{"k": data},
	}}
	return &apply.Content{Phases: []apply.Phase{{Name: "only", Objects: []apply.Object{{Manifest: object}}}}}
}

func TestDecidePass(t *testing.T) {
	observed, err := newContent("a").Digests()
	if err != nil {
		t.Fatal(err)
	}

	condition := func(kind, status, reason string) func(*olmv1.ClusterObjectSet) {
		return func(set *olmv1.ClusterObjectSet) {
			set.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason}}
		}
	}
	archived := func(set *olmv1.ClusterObjectSet) { set.Spec.LifecycleState = olmv1.LifecycleStateArchived }
	deleted := func(set *olmv1.ClusterObjectSet) {
		set.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		set.Annotations = map[string]string{olmv1.AnnotationKeepCRDs: "true"}
	}
	loaded := func(set *olmv1.ClusterObjectSet) { set.Status.ObservedPhases = observed }
	siblings := []olmv1.ClusterObjectSet{{}}
	for _, tc := range []struct {
		name  string
		set   []func(*olmv1.ClusterObjectSet)
		facts facts
		want  string
	}{
		{"archived", []func(*olmv1.ClusterObjectSet){archived}, facts{removal: &removalFacts{content: newContent("a")}}, "remove"},
		{"deleted without a Secret, while its CRDs are to be kept", []func(*olmv1.ClusterObjectSet){deleted}, facts{removal: &removalFacts{content: &apply.Content{Missing: []string{"ns/s"}}}},
			"wait: its annotation mainstay.dev/keep-crds keeps its CRDs, which cannot be distinguished from the other objects without Secret ns/s: restore it, or remove the annotation"},
		{"archived and removed", []func(*olmv1.ClusterObjectSet){archived, condition(olmv1.TypeProgressing, "False", olmv1.ReasonArchived)}, facts{}, ""},
		{"a Secret may change", nil, facts{content: &apply.Content{Mutable: []string{"ns/s"}}},
			"stop: the following secrets are not immutable (referenced secrets must have immutable set to true): ns/s"},
		{"an object is invalid", nil, facts{content: &apply.Content{Malformed: []error{errors.New("no kind")}}},
			"stop: the revision holds objects that cannot be applied, and must be replaced by another: no kind"},
		{"a Secret is missing", nil, facts{content: &apply.Content{Missing: []string{"ns/s"}}},
			"retry: objects of the revision are missing, as there is no Secret ns/s: restore it, or replace the revision"},
		{"no phases", nil, facts{content: &apply.Content{}}, "wait: the revision has no phases yet"},
		{"first load", nil, facts{content: newContent("a")}, "record only, roll out, first"},
		{"an update", nil, facts{content: newContent("a"), siblings: siblings}, "record only, roll out"},
		{"loaded before", []func(*olmv1.ClusterObjectSet){loaded}, facts{content: newContent("a")}, "roll out, first"},
		{"once complete", []func(*olmv1.ClusterObjectSet){loaded, condition(olmv1.TypeSucceeded, "True", "")}, facts{content: newContent("a")}, "roll out, ungated"},
		{"changed", []func(*olmv1.ClusterObjectSet){loaded}, facts{content: newContent("b")},
			`stop: resolved content of 1 phase(s) has changed: phase "only": a Secret that holds its objects is not what it was when the revision was first loaded; restore the Secret, or replace the revision`},
		{"a probe does not compile", []func(*olmv1.ClusterObjectSet){func(set *olmv1.ClusterObjectSet) {
			set.Spec.ProgressionProbes = []olmv1.ProgressionProbe{{}}
		}}, facts{content: newContent("a")}, "record only, stop: spec.progressionProbes[0].selector: the type \"\" is unknown or its field is not set"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set := &olmv1.ClusterObjectSet{}
			for _, edit := range tc.set {
				edit(set)
			}
			got := describeDecision(decidePass(set, tc.facts))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// describeDecision returns a decision as text.
func describeDecision(d *decision) string {
	var words []string
	if len(d.remove) > 0 {
		words = append(words, "remove")
	}
	for _, phase := range d.observed {
		words = append(words, "record "+phase.Name)
	}

	switch {
	case d.stop == nil:
	case reconcile.IsStop(d.stop):
		words = append(words, fmt.Sprintf("stop: %v", d.stop))
	case reconcile.IsWait(d.stop):
		words = append(words, fmt.Sprintf("wait: %v", d.stop))
	default:
		words = append(words, fmt.Sprintf("retry: %v", d.stop))
	}

	if d.revision != nil {
		words = append(words, "roll out")
		if d.revision.Ungated {
			words = append(words, "ungated")
		}
		if d.revision.FirstRollout {
			words = append(words, "first")
		}
	}

	return strings.Join(words, ", ")
}

// TestRemovalHandsOver has an object that another revision contains, and one that no other revision contains.
func TestRemovalHandsOver(t *testing.T) {
	content := newContent("a")
	other := content.Phases[0].Objects[0].Manifest.DeepCopy()
	other.SetName("other")
	content.Phases[0].Objects = append(content.Phases[0].Objects, apply.Object{Manifest: other})
	f := &removalFacts{content: content, wanted: map[apply.Key]bool{apply.KeyOf(other): true}}
	phases, err := decideRemoval(&olmv1.ClusterObjectSet{}, f)
	if err != nil {
		t.Fatal(err)
	}

	for i, want := range []bool{false, true} {
		if got := phases[0].Objects[i].WantedBySibling; got != want {
			t.Errorf("object %d: got handed over %v, want %v", i, got, want)
		}
	}
}

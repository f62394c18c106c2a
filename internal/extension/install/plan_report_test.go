package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/objectdiff"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// TestPlanFits: every plan fits into a ConfigMap, and states the omitted parts.
func TestPlanFits(t *testing.T) {
	cases := []struct {
		name          string
		objects, size int
		cut           bool
	}{
		{"small", 20, 100, false},
		{"one large", 1, 3 << 20, true},
		{"many", 1000, 4000, true},
		{"many with long names", 1000, 100, true},
		{"many with long problems", 1000, 100, true},
	}

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			name := "object"
			if strings.Contains(c.name, "long names") {
				name = strings.Repeat("n", 240)
			}

			p := &plan{Extension: "large", Bundle: &plannedBundle{}, Objects: &plannedObjects{Changed: c.objects}}
			if strings.Contains(c.name, "long problems") {
				for range 1000 {
					p.addProblems(checkOther, errors.New(strings.Repeat("problem ", 1000)))
				}
			}

			for i := range c.objects {
				p.Objects.Changes = append(p.Objects.Changes, objectdiff.Change{
					Change: objectdiff.Changed, APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprintf("%s-%d", name, i),
					Diff: strings.Repeat("+\"line\"\n", c.size/8),
				})
			}

			data, err := p.encodeWithinLimit()
			if err != nil {
				t.Fatal(err)
			}

			size := len(data[olmv1.PlanJSON]) + len(data[olmv1.PlanText])
			if size > maxPlanBytes || !json.Valid([]byte(data[olmv1.PlanJSON])) {
				t.Errorf("got a plan of %d bytes, want at most %d bytes of valid JSON", size, maxPlanBytes)
			}
			if got := strings.Contains(data[olmv1.PlanText], "cut or left out, since"); got != c.cut {
				t.Errorf("got truncated %v, want %v", got, c.cut)
			}
			if !strings.Contains(data[olmv1.PlanText], fmt.Sprintf("%d changed", c.objects)) {
				t.Error("the plan does not have the number of objects")
			}
		})
	}
}

// TestPlanKeepsRightsAndWorkloads: regardless of the size of the CRDs of a bundle, its rights and
// workloads are complete in the plan, and come first.
func TestPlanKeepsRightsAndWorkloads(t *testing.T) {
	p := &plan{Extension: "large", Bundle: &plannedBundle{}, Objects: &plannedObjects{}}
	for i := range 40 {
		p.Objects.Changes = append(p.Objects.Changes, objectdiff.Change{
			Change: objectdiff.Added, APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: strconv.Itoa(i), Diff: strings.Repeat("+crd\n", 20000),
		})
	}

	whole := map[string]string{"Deployment": strings.Repeat("+deployment\n", 5000), "ClusterRole": strings.Repeat("+role\n", 5000)}
	for kind, apiVersion := range map[string]string{"Deployment": "apps/v1", "ClusterRole": "rbac.authorization.k8s.io/v1"} {
		p.Objects.Changes = append(p.Objects.Changes, objectdiff.Change{Change: objectdiff.Added, APIVersion: apiVersion, Kind: kind, Name: "x", Diff: whole[kind]})
	}

	data, err := p.encodeWithinLimit()
	if err != nil {
		t.Fatal(err)
	}
	if size := len(data[olmv1.PlanJSON]) + len(data[olmv1.PlanText]); size > maxPlanBytes {
		t.Errorf("got a plan of %d bytes, want at most %d", size, maxPlanBytes)
	}

	for kind, diff := range whole {
		if !strings.Contains(data[olmv1.PlanText], diff) {
			t.Errorf("the diff of the %s is truncated", kind)
		}
	}

	if !strings.Contains(data[olmv1.PlanText], "The diffs of 40 objects are cut") {
		t.Error("the plan does not state that the CRDs are truncated")
	}
}

// TestPlanOrder checks the order in which a reviewer reads the plan: rights, images, CRDs and counts, and then the changes of
// objects, in which RBAC and workloads come first and are complete regardless of the size of the other objects.
func TestPlanOrder(t *testing.T) {
	kinds := []struct{ apiVersion, kind string }{ // in the order of the plan
		{"v1", "ServiceAccount"}, {"rbac.authorization.k8s.io/v1", "ClusterRole"}, {"rbac.authorization.k8s.io/v1", "ClusterRoleBinding"},
		{"rbac.authorization.k8s.io/v1", "Role"}, {"rbac.authorization.k8s.io/v1", "RoleBinding"},
		{"v1", "Pod"}, {"apps/v1", "DaemonSet"}, {"apps/v1", "Deployment"}, {"apps/v1", "StatefulSet"}, {"batch/v1", "CronJob"}, {"batch/v1", "Job"},
		{"v1", "ConfigMap"}, {"v1", "Service"}, {"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition"},
	}
	const lastWhole = 10 // Job
	var objects []unstructured.Unstructured
	var want []string
	for i, k := range kinds {
		content := strings.Repeat("a line of "+k.kind+"\n", 300)
		if i > lastWhole {
			content = strings.Repeat(content, 100)
		}
		object := unstructured.Unstructured{Object: map[string]any{"apiVersion": k.apiVersion, "kind": k.kind, "text": content}}
		object.SetName("x")
		objects = append(objects, object)
		want = append(want, k.kind)
	}
	slices.Reverse(objects)

	p := &plan{
		Extension: "ordered", Bundle: &plannedBundle{}, Images: []string{"registry.example.com/x:v1"}, Why: []string{"it fits"},
		Contents: &plannedContents{Rights: []plannedRights{{Role: "clusterrole/x", Rules: []string{"get pods"}}}, CRDs: []string{"xs.example.com"}, Kinds: map[string]int{"Job": 1}},
	}
	if err := p.addObjectChanges(nil, objects); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, change := range p.Objects.Changes {
		got = append(got, change.Kind)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order of the changes (-want +got):\n%s", diff)
	}

	data, err := p.encodeWithinLimit()
	if err != nil {
		t.Fatal(err)
	}
	text := data[olmv1.PlanText]
	for i, change := range p.Objects.Changes {
		if isWhole := strings.Contains(text, change.Diff); isWhole != (i <= lastWhole) {
			t.Errorf("diff of the %s: got complete %t, want %t", change.Kind, isWhole, i <= lastWhole)
		}
	}

	end := 0
	for _, section := range []string{"Rights that it gets:", "Images that run:", "CRDs:", "Objects by kind:", "Why this bundle:", "Objects: 15 added", "+++ planned/ServiceAccount x"} {
		i := strings.Index(text[end:], section)
		if i < 0 {
			t.Fatalf("the plan has no section %q after the others:\n%.2000s", section, text)
		}
		end += i
	}
}

// TestApart splits joined errors, and does not split sentences.
func TestApart(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	cases := []struct {
		name string
		err  error
		want []string
	}{
		{"none", nil, nil},
		{"one", a, []string{"a"}},
		{"joined", errors.Join(a, nil, errors.Join(b, c)), []string{"a", "b", "c"}},
		{"with a reason", reconcile.Wait("Retrying", 0, errors.Join(a, b)), []string{"a", "b"}},
		{"a sentence of two", fmt.Errorf("%w, but %w", a, b), []string{"a, but b"}},
		{"a sentence about some", fmt.Errorf("checking: %w", errors.Join(a, b)), []string{"checking: a\nb"}},
	}

	for _, c := range cases {
		var got []string
		for _, err := range splitJoinedErrors(c.err) {
			got = append(got, err.Error())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

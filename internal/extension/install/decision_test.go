package install

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// TestDecidePass tests the actions of a pass other than the change itself.
func TestDecidePass(t *testing.T) {
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}
	ext.Spec.Source.Catalog = &olmv1.CatalogFilter{PackageName: "p"}
	pulling := reconcile.Wait(olmv1.ReasonRollingOut, 0, fmt.Errorf("pulling image i: %w", pull.ErrRetrieving))
	planned := func(value string, content *contentFacts) *planFacts {
		change := factsOfBundle("v1")
		change.resolution.result, change.target, change.content = &resolve.Result{}, &finding{}, content
		return &planFacts{value: value, wanted: ext, effective: ext, change: &change}
	}
	foreign := planned("{}", &contentFacts{err: errors.New("no bundle")})
	foreign.existing = &corev1.ConfigMap{}
	for _, tc := range []struct {
		name      string
		revisions []string
		plan      *planFacts
		want      string
	}{
		{"nothing", []string{"1S:v1"}, &planFacts{}, ""},
		{"replaced revisions", []string{"1S:v1", "2A:v2", "3S:v3"}, &planFacts{}, "archive ext-1 ext-2"},
		{"expired revisions, one of which is archived now", []string{"1X:a", "2X:a", "3X:a", "4X:a", "5X:a", "6S:a", "7S:b"}, &planFacts{}, "archive ext-6, delete ext-1"},
		{"an outdated plan", nil, &planFacts{outdated: true}, "delete the plan"},
		{"an annotation with an unknown value", nil, &planFacts{err: errors.New("unknown")}, "stop: unknown"},
		{"a plan in addition to the change", nil, planned("{}", &contentFacts{err: errors.New("no bundle")}), "write the plan"},
		{"only a plan", nil, planned(olmv1.PlanOnly, &contentFacts{err: errors.New("no bundle")}), "write the plan, stop: Planned only: see ConfigMap /"},
		{"a plan whose bundle is being pulled", nil, planned("{}", &contentFacts{err: fmt.Errorf("bundle b: %w", pulling)}), ""},
		{"only a plan, whose bundle is being pulled", nil, planned(olmv1.PlanOnly, &contentFacts{err: fmt.Errorf("bundle b: %w", pulling)}), "stop: " + pulling.Error()},
		{"a ConfigMap that belongs to something else", nil, foreign, `stop: the plan cannot be written, as ConfigMap "" in namespace "" has another owner: delete it`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &facts{revisions: parseRevisions(tc.revisions), plan: tc.plan}
			if diff := cmp.Diff(tc.want, describePass(decidePass(ext, f))); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if ends := tc.plan.endsPass(); ends != (decidePass(ext, f).plan.stop != nil) {
				t.Errorf("got omitted facts of the change: %v, which differs from the decision", ends)
			}
		})
	}
}

// describePass returns the actions of a pass other than the change itself as text.
func describePass(d *decision) string {
	var words []string
	if len(d.replaced) > 0 {
		words = append(words, "archive "+strings.Join(d.replaced, " "))
	}
	if len(d.expired) > 0 {
		words = append(words, "delete "+strings.Join(d.expired, " "))
	}
	if d.plan.remove {
		words = append(words, "delete the plan")
	}
	if d.plan.configMap != nil {
		words = append(words, "write the plan")
	}
	if d.plan.stop != nil {
		words = append(words, "stop: "+d.plan.stop.Error())
	}

	return strings.Join(words, ", ")
}

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/strategy"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/render"
)

const namespace = "fruit"

// newFacts returns the facts about a bundle that OLM Classic has installed for target namespaces.
func newFacts(t *testing.T, b *bundle.Bundle, targets ...string) *Facts {
	t.Helper()
	csv := b.CSV.DeepCopy()
	csv.Namespace, csv.UID, csv.Status.Phase = namespace, "csv", v1alpha1.CSVPhaseSucceeded
	var wanted []string
	if len(targets) > 0 && targets[0] != "" {
		wanted = targets
	}
	metav1.SetMetaDataAnnotation(&csv.ObjectMeta, csvinfo.AnnotationOperatorGroup, "group")
	f := &Facts{
		Subscription: &v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: b.Package, UID: "subscription"},
			Spec:       v1alpha1.SubscriptionSpec{Package: b.Package, Channel: "stable"},
			Status:     v1alpha1.SubscriptionStatus{InstalledCSV: csv.Name, State: v1alpha1.SubscriptionStateAtLatest},
		},
		CSV: csv, CSVs: []v1alpha1.ClusterServiceVersion{*csv}, Bundle: b,
		OperatorGroups: []operatorsv1.OperatorGroup{{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group"},
			Spec:       operatorsv1.OperatorGroupSpec{TargetNamespaces: wanted}, Status: operatorsv1.OperatorGroupStatus{Namespaces: targets},
		}},
		Offers: []Offer{{Catalog: "catalog", Image: "quay.io/example/bundle", DefaultChannel: "stable", Channels: []string{"stable"}}},
		Live:   map[apply.Key]*unstructured.Unstructured{},
	}
	if len(csv.Spec.WebhookDefinitions) > 0 {
		f.Issuer = render.IssuerClassic
	}
	f.addLiveObjects(t)
	return f
}

// addLiveObjects adds the objects that OLM Classic creates for the CSV and that the extension also
// has.
func (f *Facts) addLiveObjects(t *testing.T) {
	t.Helper()
	deployments := map[string]*unstructured.Unstructured{}
	hashes := map[string]string{}
	for _, d := range f.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		hashes[d.Name] = "hash"
	}
	marked := f.CSV.DeepCopy()
	marked.Annotations[csvinfo.AnnotationOperatorNamespace] = namespace
	marked.Annotations[csvinfo.AnnotationTargetNamespaces] = f.targetNamespaces()[0]
	wanted, err := strategy.Deployments(marked, strategy.Inputs{CAHashes: hashes, Config: f.Subscription.Spec.Config})
	if err != nil {
		t.Logf("OLM Classic does not install this bundle: %v", err)
	}
	for i := range wanted {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&wanted[i])
		if err != nil {
			t.Fatal(err)
		}
		deployments[wanted[i].Name] = &unstructured.Unstructured{Object: content}
	}

	rendered, err := render.Render(f.Bundle, renderOptions(f, newConfig(f)))
	if err != nil {
		return
	}
	for i := range rendered {
		live := rendered[i].DeepCopy()
		switch live.GetKind() {
		case "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			continue // OLM Classic names them differently.
		case kindDeployment:
			live = deployments[live.GetName()]
		}
		live.SetOwnerReferences([]metav1.OwnerReference{csvinfo.OwnerReference(f.CSV)})
		live.SetUID(types.UID(live.GetName()))
		f.Live[apply.KeyOf(&rendered[i])] = live
	}
}

// checksOf returns the names of the checks with findings of a severity.
func checksOf(findings []Finding, severity Severity) []string {
	var names []string
	for _, f := range findings {
		if f.Severity == severity {
			names = append(names, f.Check)
		}
	}
	return names
}

func expectEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: got +, want -:\n%s", what, diff)
	}
}

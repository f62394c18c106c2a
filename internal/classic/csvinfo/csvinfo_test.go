package csvinfo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

const (
	fnvEtcd     = "c571d720f17289d3"
	fnvA        = "7e2bc9261d1a204f"
	hashWith    = "48mVeMY4lAF2n8RVFVYOdSUdTvs6KQQEpP1YOq"
	hashWithout = "3dcwKEKSVmT88u1GDFnfihADIXFApVRZDvwAo3"
)

func named(name, replaces string) v1alpha1.ClusterServiceVersion {
	csv := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	csv.Spec.Replaces = replaces
	return csv
}

func TestAPIs(t *testing.T) {
	csv := named("a", "")
	csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "etcds.etcd.database.coreos.com", Version: "v1beta2", Kind: "EtcdCluster"}}
	csv.Spec.APIServiceDefinitions.Required = []v1alpha1.APIServiceDescription{{Name: "as", Group: "g.example.com", Version: "v1", Kind: "A"}}
	provided, err := ProvidedAPIs(&csv)
	if err != nil {
		t.Fatal(err)
	}

	required, err := RequiredAPIs(&csv)
	if err != nil {
		t.Fatal(err)
	}
	if got := []string{JoinAPIs(provided), JoinAPIs(required)}; !cmp.Equal(got, []string{"EtcdCluster.v1beta2.etcd.database.coreos.com", "A.v1.g.example.com"}) {
		t.Errorf("got the APIs %v", got)
	}

	labels, err := APILabels(&csv)
	if err != nil {
		t.Fatal(err)
	}

	// The keys are FNV-1a of 64 bits over the texts above, computed by another program.
	want := map[string]string{apiLabelPrefix + fnvEtcd: APIProvided, apiLabelPrefix + fnvA: APIRequired}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	csv.Spec.CustomResourceDefinitions.Owned[0].Name = "nodot"
	if _, err := APILabels(&csv); err == nil {
		t.Error("a CRD without a group is accepted")
	}
}

func TestSplit(t *testing.T) {
	apis := APIs{}
	apis.Insert(schema.GroupVersionKind{Group: "g.example.com", Version: "v1", Kind: "B"}, schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "A"})
	text := JoinAPIs(apis)
	if text != "A.v1.g,B.v1.g.example.com" {
		t.Errorf("list %q", text)
	}
	if diff := cmp.Diff(apis, ParseAPIs(text)); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if odd := ParseAPIs(", x,y.z,.v1.g,K..g, A.v1.g "); len(odd) != 1 {
		t.Errorf("got %v from a list with one valid API", odd)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("A.v1.g,B.v1.g.example.com")
	f.Add(",,.")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			t.Skip("longer than the annotation of an OperatorGroup is in practice")
		}
		apis := ParseAPIs(text)
		if diff := cmp.Diff(apis, ParseAPIs(JoinAPIs(apis))); diff != "" {
			t.Errorf("written and read again (-want +got):\n%s", diff)
		}
	})
}

func TestIsCopied(t *testing.T) {
	tests := map[string]struct {
		edit func(*v1alpha1.ClusterServiceVersion)
		want bool
	}{
		"no": {func(*v1alpha1.ClusterServiceVersion) {}, false},
		"at home": {func(c *v1alpha1.ClusterServiceVersion) {
			c.Annotations = map[string]string{AnnotationOperatorNamespace: "ns"}
		}, false},
		"elsewhere": {func(c *v1alpha1.ClusterServiceVersion) {
			c.Annotations = map[string]string{AnnotationOperatorNamespace: "x"}
		}, true},
		"by label":   {func(c *v1alpha1.ClusterServiceVersion) { c.Labels = map[string]string{LabelCopiedFrom: ""} }, true},
		"by reason":  {func(c *v1alpha1.ClusterServiceVersion) { c.Status.Reason = v1alpha1.CSVReasonCopied }, true},
		"of another": {func(c *v1alpha1.ClusterServiceVersion) { c.Status.Reason = v1alpha1.CSVReasonReplaced }, false},
	}

	for name, tt := range tests {
		csv := named("a", "")
		tt.edit(&csv)
		if IsCopied(&csv) != tt.want {
			t.Errorf("%s: got copied %t", name, !tt.want)
		}
	}
}

func TestStates(t *testing.T) {
	csv := named("a", "")
	if !IsUncopiable(&csv) {
		t.Error("a new ClusterServiceVersion is copied")
	}

	csv.Status.Phase = v1alpha1.CSVPhaseFailed
	for _, reason := range uncopiableReasons {
		if csv.Status.Reason = reason; !IsUncopiable(&csv) {
			t.Errorf("a ClusterServiceVersion with reason %s is copied", reason)
		}
	}

	if csv.Status.Reason = v1alpha1.CSVReasonBeingReplaced; IsUncopiable(&csv) || !IsObsolete(&csv) {
		t.Error("a ClusterServiceVersion that is being replaced is not copied, or not obsolete")
	}
}

func TestSupports(t *testing.T) {
	mode := func(modes ...v1alpha1.InstallModeType) (list []v1alpha1.InstallMode) {
		for _, m := range modes {
			list = append(list, v1alpha1.InstallMode{Type: m, Supported: true})
		}
		return append(list, v1alpha1.InstallMode{Type: "Other"})
	}

	tests := map[string]struct {
		modes   []v1alpha1.InstallMode
		targets []string
		want    string
	}{
		"none":              {mode(), nil, "operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces"},
		"own":               {mode("OwnNamespace"), []string{"own"}, ""},
		"not own":           {mode("AllNamespaces"), []string{"own"}, "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace"},
		"all":               {mode("AllNamespaces"), []string{""}, ""},
		"not all":           {mode("OwnNamespace"), []string{""}, "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces"},
		"one":               {mode("SingleNamespace"), []string{"a"}, ""},
		"not one":           {mode("OwnNamespace"), []string{"a"}, "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace"},
		"several":           {mode("MultiNamespace"), []string{"a", "b"}, ""},
		"not several":       {mode("SingleNamespace"), []string{"a", "b", "c"}, "MultiNamespace InstallModeType not supported, cannot configure to watch 3 namespaces"},
		"several and own":   {mode("MultiNamespace", "OwnNamespace"), []string{"a", "own"}, ""},
		"several, not own":  {mode("MultiNamespace"), []string{"a", "own"}, "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace"},
		"several, with all": {mode("MultiNamespace"), []string{"", "a"}, "operatorgroup has invalid selected namespaces, NamespaceAll found when |selected namespaces| > 1"},
	}

	for name, tt := range tests {
		got := ""
		if err := ValidateTargets(tt.modes, "own", tt.targets); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}

	if err := ValidateInstallModes(mode("OwnNamespace", "OwnNamespace")); err == nil || err.Error() != "InstallMode list contains duplicates, cannot make set: [{OwnNamespace true} {OwnNamespace true} {Other false}]" {
		t.Errorf("duplicates: %v", err)
	}
}

func TestReplacements(t *testing.T) {
	v1, v2, v3 := named("v1", ""), named("v2", "v1"), named("v3", "v2")
	all := []v1alpha1.ClusterServiceVersion{v3, v1, v2}
	if next := Replacement(&v1, all); next == nil || next.Name != "v2" {
		t.Errorf("got the replacement %v of v1", next)
	}
	if last, err := LastReplacement(&v1, all); err != nil || last.Name != "v3" {
		t.Errorf("got the last %v, error %v", last, err)
	}

	for name, tt := range map[string]struct {
		got  sets.Set[string]
		want []string
	}{
		"ancestors of v3":    {Ancestors(&v3, all), []string{"v1", "v2"}},
		"ancestors of v1":    {Ancestors(&v1, all), []string{}},
		"chain of v2":        {ReplacementChain(&v2, all), []string{"v1", "v2", "v3"}},
		"a missing ancestor": {Ancestors(&v2, []v1alpha1.ClusterServiceVersion{v2}), []string{"v1"}},
	} {
		if diff := cmp.Diff(tt.want, sets.List(tt.got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	self := named("self", "self")
	if Replacement(&self, []v1alpha1.ClusterServiceVersion{self}) != nil || len(Ancestors(&self, []v1alpha1.ClusterServiceVersion{self})) > 0 {
		t.Error("a CSV replaces itself")
	}

	copied := named("copy", "v1")
	copied.Labels = map[string]string{LabelCopiedFrom: "x"}
	if Replacement(&v1, []v1alpha1.ClusterServiceVersion{copied}) != nil {
		t.Error("a copied CSV is a replacement")
	}

	a, b := named("a", "b"), named("b", "a")
	ring := []v1alpha1.ClusterServiceVersion{a, b}
	if _, err := LastReplacement(&a, ring); err == nil {
		t.Error("Last of a cycle: got no error, want one")
	}
	if got := sets.List(ReplacementChain(&a, ring)); !cmp.Equal(got, []string{"a", "b"}) {
		t.Errorf("got the chain %v of a cycle", got)
	}
}

func TestEndpoints(t *testing.T) {
	csv := named("a", "")
	for _, name := range []string{"plain", "with.dots", "both"} {
		csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = append(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, v1alpha1.StrategyDeploymentSpec{Name: name})
	}

	csv.Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{
		{DeploymentName: "both", ContainerPort: 9443, TargetPort: ptr.To(intstr.FromString("hooks"))}, {DeploymentName: "with.dots"}, {DeploymentName: "absent"},
		{DeploymentName: "both", ContainerPort: 9443},
	}
	csv.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{DeploymentName: "both"}}
	type row struct {
		Name    string
		Ports   []corev1.ServicePort
		APIs    bool
		Account string
		Secret  string
	}

	var got []row
	for _, e := range Endpoints(&csv) {
		got = append(got, row{ServiceName(e.Deployment.Name), e.Ports, e.ServesAPIs, e.ServiceAccount(), SecretName(e.Deployment.Name)})
	}

	plain := corev1.ServicePort{Name: "443", Port: 443, TargetPort: intstr.FromInt32(443)}
	want := []row{
		{"with-dots-service", []corev1.ServicePort{plain}, false, "default", "with-dots-service-cert"},
		{"both-service", []corev1.ServicePort{plain, {Name: "9443", Port: 9443, TargetPort: intstr.FromString("hooks")}}, true, "default", "both-service-cert"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
}

func TestHash(t *testing.T) {
	// SHA-224 over the JSON text (and a newline), in base 62, computed by another program.
	with, err := Hash(map[string]string{"a": "<b>"})
	if err != nil {
		t.Fatal(err)
	}

	without, err := PlainHash(map[string]string{"a": "<b>"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{hashWith, hashWithout}, []string{with, without}); diff != "" {
		t.Errorf("hashes (-want +got):\n%s", diff)
	}
	if _, err := Hash(func() {}); err == nil {
		t.Error("a value without JSON has a hash")
	}
}

func TestOwners(t *testing.T) {
	csv := named("a", "")
	csv.UID = "1"
	labels := OwnerLabels("ns", "a")
	if namespace, name, ok := OwnedByLabels(labels); !ok || namespace != "ns" || name != "a" {
		t.Errorf("got the owner %s/%s, %t", namespace, name, ok)
	}

	labels[LabelOwnerKind] = "OperatorGroup"
	if _, _, ok := OwnedByLabels(labels); ok {
		t.Error("the labels of an OperatorGroup are accepted as those of a ClusterServiceVersion")
	}

	references := []metav1.OwnerReference{OwnerReference(&csv)}
	if !IsOwner(references, &csv) {
		t.Error("the owner reference does not match its owner")
	}
	if csv.UID = "2"; IsOwner(references, &csv) {
		t.Error("the owner reference matches a recreated ClusterServiceVersion")
	}
	if !HasLabels(MergeLabels(nil, labels), labels) || HasLabels(nil, labels) || !HasLabels(labels, nil) {
		t.Error("HasLabels does not match equal or missing labels")
	}
}

// A selector never selects the objects of others, neither in memory nor as the text of a request.
func TestSelectOwned(t *testing.T) {
	owned := OwnerLabels("ns", "etcd.v1.0.0")
	for name, want := range map[string]bool{
		"etcd.v1.0.0": true, "other.v1.0.0": false, strings.Repeat("a", 64): false, "": false, "a b": false,
	} {
		selector := SelectOwned("ns", name)
		if got := selector.Matches(labels.Set(owned)); got != want {
			t.Errorf("%q: matches %t, want %t", name, got, want)
		}

		sent, err := labels.Parse(selector.String())
		if err != nil || sent.Empty() || sent.Matches(labels.Set(owned)) != want {
			t.Errorf("%q: a request selects %q (%v), which matches %t, want %t", name, selector, err, sent.Matches(labels.Set(owned)), want)
		}
	}
}

func TestComponentKey(t *testing.T) {
	long := strings.Repeat("a", 62)
	for operator, want := range map[string]string{
		"etcd.ns":        "operators.coreos.com/etcd.ns",
		long + "b.ns":    "operators.coreos.com/" + long + "b",
		long + ".ns":     "operators.coreos.com/" + long,
		long + "bcde.ns": "operators.coreos.com/" + long + "b",
		"a/b.ns":         "",
		"_etcd.ns":       "",
	} {
		got, ok := ComponentKey(operator)
		if ok != (want != "") || ok && got != want {
			t.Errorf("ComponentKey(%q): got %q, %t, want %q", operator, got, ok, want)
		}
	}
}

func TestOperatorsOfLabels(t *testing.T) {
	cut := "operators.coreos.com/a." + strings.Repeat("a", 61)
	got := OperatorsOfLabels(map[string]string{"operators.coreos.com/b.ns": "", "operators.coreos.com/a.ns": "", cut: "", "operators.coreos.com/x": "", "app": "etcd.ns"})
	if diff := cmp.Diff([]string{"a.ns", "b.ns"}, got); diff != "" {
		t.Errorf("Operators (-want +got):\n%s", diff)
	}
}

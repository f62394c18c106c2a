package requirements

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

func newCSV(edit func(*v1alpha1.ClusterServiceVersionSpec)) *v1alpha1.ClusterServiceVersion {
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a.v2", UID: "mine"}}
	edit(&csv.Spec)
	return csv
}

// newCRD returns a CRD that serves v1 and has v2.
func newCRD(established bool, annotations map[string]string) *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "as.g", UID: "u", Annotations: annotations}}
	c.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}, {Name: "v2"}}
	status := apiextensionsv1.ConditionFalse
	if established {
		status = apiextensionsv1.ConditionTrue
	}

	c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: status}}
	return c
}

func alongside(names ...string) map[string]string {
	annotations := map[string]string{"other": "annotation"}
	for _, name := range names {
		annotations[csvinfo.AlongsideKey("ns", name)] = "ns/" + name
	}
	return annotations
}

func TestDefinitions(t *testing.T) {
	owned := newCSV(func(s *v1alpha1.ClusterServiceVersionSpec) {
		s.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "as.g", Version: "v1", Kind: "A"}}
	})
	required := newCSV(func(s *v1alpha1.ClusterServiceVersionSpec) {
		s.CustomResourceDefinitions.Required = []v1alpha1.CRDDescription{{Name: "as.g", Version: "v1", Kind: "A"}}
	})
	unserved := newCSV(func(s *v1alpha1.ClusterServiceVersionSpec) {
		s.CustomResourceDefinitions.Required = []v1alpha1.CRDDescription{{Name: "as.g", Version: "v2", Kind: "A"}}
	})
	const fine = "CRD is present and Established condition is true"
	tests := map[string]struct {
		csv                   *v1alpha1.ClusterServiceVersion
		crd                   *apiextensionsv1.CustomResourceDefinition
		status, message, uuid string
	}{
		"missing":                         {owned, nil, "NotPresent", "CRD is not present", ""},
		"present":                         {owned, newCRD(true, nil), "Present", fine, "u"},
		"not established":                 {required, newCRD(false, nil), "PresentNotAvailable", "CRD is present but the Established condition is False (not available)", "u"},
		"not served":                      {unserved, newCRD(true, nil), "NotPresent", "CRD version not served", ""},
		"installed with the old one":      {owned, newCRD(true, alongside("a.v1", "b.v1")), "PresentNotSatisfied", "CRD installed alongside other CSV(s): ns/a.v1, ns/b.v1", ""},
		"installed with both":             {owned, newCRD(true, alongside("a.v1", "a.v2")), "Present", fine, "u"},
		"installed with another one":      {owned, newCRD(true, alongside("b.v1")), "Present", fine, "u"},
		"required, with the old one":      {required, newCRD(true, alongside("a.v1")), "Present", fine, "u"},
		"old one's name, other namespace": {owned, newCRD(true, map[string]string{csvinfo.AlongsideKey("far", "a.v1"): "far/a.v1"}), "Present", fine, "u"},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := &ClusterState{CRDs: map[string]*apiextensionsv1.CustomResourceDefinition{"as.g": tt.crd}, Ancestors: sets.New("a.v1")}
			want := &Result{Met: tt.status == "Present", Statuses: []v1alpha1.RequirementStatus{{
				Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "as.g", Status: tt.status, Message: tt.message, UUID: tt.uuid,
			}}}
			got, err := Check(tt.csv, cluster)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestKubernetes(t *testing.T) {
	tests := map[string]struct {
		least, server   string
		err             error
		status, message string
	}{
		"newer":                  {"1.20.0", "v1.36.3", nil, "Present", "CSV minKubeVersion (1.20.0) less than server version (1.36.3)"},
		"equal":                  {"1.36.3", "v1.36.3-gke.1+x", nil, "Present", "CSV minKubeVersion (1.36.3) less than server version (1.36.3)"},
		"older":                  {"1.40.0", "v1.36.3", nil, "PresentNotSatisfied", "CSV version requirement not met: minKubeVersion (1.40.0) > server version (1.36.3)"},
		"no answer":              {"1.20.0", "", errors.New("x"), "NotPresent", "Server version discovery error"},
		"odd server":             {"1.20.0", "odd", nil, "NotPresent", "Server version parsing error"},
		"own version is invalid": {"odd", "v1.36.3", nil, "PresentNotSatisfied", "CSV version parsing error"},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			csv := newCSV(func(s *v1alpha1.ClusterServiceVersionSpec) { s.MinKubeVersion = v1alpha1.LooseVersion(tt.least) })
			got, err := Check(csv, &ClusterState{ServerVersion: tt.server, ServerVersionErr: tt.err})
			if err != nil {
				t.Fatal(err)
			}

			want := &Result{Met: tt.status == "Present", Statuses: []v1alpha1.RequirementStatus{{
				Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion", Name: "a.v2", Status: tt.status, Message: tt.message,
			}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPIs(t *testing.T) {
	csv := newCSV(func(s *v1alpha1.ClusterServiceVersionSpec) {
		s.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{{Name: "d"}}
		s.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{Group: "own", Version: "v1", Kind: "A", DeploymentName: "d"}, {Group: "own", Version: "v2", Kind: "A", DeploymentName: "e"}}
		s.APIServiceDefinitions.Required = []v1alpha1.APIServiceDescription{
			{Group: "own", Version: "v1", Kind: "A"}, {Group: "g", Version: "v1", Kind: "Good"}, {Group: "g", Version: "v1", Kind: "Unserved"},
			{Group: "down", Version: "v1", Kind: "D"}, {Group: "none", Version: "v1", Kind: "N"},
		}
		s.NativeAPIs = []metav1.GroupVersionKind{{Group: "n", Version: "v1", Kind: "There"}, {Group: "n", Version: "v1", Kind: "Absent"}}
	})

	cluster := &ClusterState{
		APIServices: map[string]bool{"v1.g": true, "v1.down": false},
		Served: sets.New(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Good"}, schema.GroupVersionKind{Group: "down", Version: "v1", Kind: "D"},
			schema.GroupVersionKind{Group: "n", Version: "v1", Kind: "There"}),
	}
	got, err := Check(csv, cluster)
	if err != nil {
		t.Fatal(err)
	}

	type row struct{ Name, Kind, Status, Message string }
	var rows []row
	for _, s := range got.Statuses {
		rows = append(rows, row{s.Name, s.Kind, s.Status, s.Message})
	}

	want := []row{
		{"v1.g", "APIService", "Present", ""},
		{"v1.g", "APIService", "NotPresent", "APIService does not serve the kind"},
		{"v1.down", "APIService", "NotPresent", "APIService is not available"},
		{"v1.none", "APIService", "NotPresent", "APIService does not exist"},
		{"v1.own", "APIService", "DeploymentFound", ""},
		{"v2.own", "APIService", "DeploymentNotFound", "no deployment of the install strategy is named as its deploymentName"},
		{"There", "There", "Present", "Native API exists"},
		{"Absent", "Absent", "NotPresent", "Native API does not exist"},
	}
	if diff := cmp.Diff(want, rows); diff != "" || got.Met {
		t.Errorf("met %t (-want +got):\n%s", got.Met, diff)
	}
}

func TestAccounts(t *testing.T) {
	read := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	write := rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	csv := newCSV(func(s *v1alpha1.ClusterServiceVersionSpec) {
		spec := &s.InstallStrategy.StrategySpec
		spec.Permissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "sa", Rules: []rbacv1.PolicyRule{read}}}
		spec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "sa", Rules: []rbacv1.PolicyRule{write}}}
	})
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ns", Name: "sa"}}
	local := &rbac.Policy{
		Roles:        []rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}, Rules: []rbacv1.PolicyRule{read, write}}},
		RoleBindings: []rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}, Subjects: subject, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}}},
	}
	wide := &rbac.Policy{
		ClusterRoles:        []rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{read, write}}},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{{Subjects: subject, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}}},
	}
	const (
		readText  = `namespaced rule:{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}`
		writeText = `cluster rule:{"verbs":["create"],"apiGroups":[""],"resources":["pods"]}`
	)
	dependents := func(first, second string) []v1alpha1.DependentStatus {
		return []v1alpha1.DependentStatus{
			{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "PolicyRule", Status: first, Message: readText},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "PolicyRule", Status: second, Message: writeText},
		}
	}

	ownedBy := func(kind string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: "a.v2", UID: "mine"}}}}
	}
	another := ownedBy("ClusterServiceVersion")
	another.OwnerReferences[0].UID = "other"
	tests := map[string]struct {
		account         *metav1.PartialObjectMetadata
		policy          *rbac.Policy
		status, message string
		dependents      []v1alpha1.DependentStatus
		lacks           bool
	}{
		"missing":                      {nil, wide, "NotPresent", "Service account does not exist", nil, false},
		"of another":                   {another, wide, "PresentNotSatisfied", "Service account is owned by another ClusterServiceVersion", nil, false},
		"its own":                      {ownedBy("ClusterServiceVersion"), wide, "Present", "", dependents("Satisfied", "Satisfied"), false},
		"of another kind":              {ownedBy("Kettle"), wide, "Present", "", dependents("Satisfied", "Satisfied"), false},
		"rights in the namespace only": {&metav1.PartialObjectMetadata{}, local, "PresentNotSatisfied", "Policy rule not satisfied for service account", dependents("Satisfied", "NotSatisfied"), true},
		"no rights":                    {&metav1.PartialObjectMetadata{}, nil, "PresentNotSatisfied", "Policy rule not satisfied for service account", dependents("NotSatisfied", "NotSatisfied"), true},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := &ClusterState{Policy: tt.policy, Accounts: map[string]*metav1.PartialObjectMetadata{}}
			if tt.account != nil {
				cluster.Accounts["sa"] = tt.account
			}

			got, err := Check(csv, cluster)
			if err != nil {
				t.Fatal(err)
			}

			want := &Result{Met: tt.status == "Present", LacksRights: tt.lacks, Statuses: []v1alpha1.RequirementStatus{{
				Version: "v1", Kind: "ServiceAccount", Name: "sa", Status: tt.status, Message: tt.message, Dependents: tt.dependents,
			}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRules(t *testing.T) {
	for name, rule := range map[string]rbacv1.PolicyRule{
		"no verbs": {Resources: []string{"pods"}},
		"both":     {Verbs: []string{"get"}, Resources: []string{"pods"}, NonResourceURLs: []string{"/x"}},
	} {
		csv := newCSV(func(s *v1alpha1.ClusterServiceVersionSpec) {
			s.InstallStrategy.StrategySpec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{Rules: []rbacv1.PolicyRule{rule}}}
		})
		if _, err := Check(csv, &ClusterState{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestRealBundles(t *testing.T) {
	for _, dir := range checkout.RealBundles(t) {
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			b, err := bundle.Load(os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}

			got, err := Check(&b.CSV, &ClusterState{ServerVersion: "v1.36.3"})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Statuses) == 0 || got.Met {
				t.Errorf("requirements of an empty cluster: met %t, %v", got.Met, got.Statuses)
			}
		})
	}
}

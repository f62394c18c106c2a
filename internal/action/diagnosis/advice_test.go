package diagnosis

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// A waiting command and the command explain print the same advice for a condition.
func TestAdvice(t *testing.T) {
	for _, test := range []struct{ name, reason, message, want string }{
		{"a second owner of a ServiceAccount", olmv1.ReasonRetrying,
			`phase "identity" (1 of 6): ServiceAccount 'cook' already exists in namespace 'kitchen' and cannot be managed by operator-controller: it is controlled by ClusterObjectSet "teapot-1" of ClusterExtension "teapot"; remove it from its owner first`,
			"remove the named object if it is not needed, or its other owner: an object can have only one owner"},
		{"a missing ServiceAccount", olmv1.ReasonRetrying, `installation cannot proceed due to missing ServiceAccount: create ServiceAccount "cook" in namespace "kitchen"`,
			"create it: kubectl create serviceaccount cook -n kitchen; 'mainstay rbac generate kettle --name kettle --namespace kitchen --service-account cook' writes it with the permissions that it needs"},
		{"a right about ServiceAccounts", olmv1.ReasonRetrying, "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n  Namespace:\"\" APIGroups:[] Resources:[serviceaccounts] Verbs:[list,watch]",
			"grant ServiceAccount kitchen/cook the missing permissions: 'mainstay rbac generate kettle --name kettle --namespace kitchen --service-account cook' writes all that it needs"},
		{"a missing namespace", olmv1.ReasonRetrying, `namespace "kitchen" does not exist: create it, the extension's namespaced objects go there`,
			"create it: kubectl create namespace kitchen"},
		{"an unsafe CRD", olmv1.ReasonRetrying, `validating upgrade for CRD "mugs.example.com" failed: v1: ^.spec.size: a field was removed`,
			"the update would change a CRD in a way that can lose data: choose another version, or accept that with --crd-upgrade-safety None, as in 'mainstay extension upgrade kettle --crd-upgrade-safety None'"},
		{"a missing dependency", olmv1.ReasonRetrying, `bundle "kettle.v0.1.0" lacks what it needs: it needs package "water". Install it, or set spec.install.dependencies.policy to Install to have it installed`,
			"install its dependencies first, or let them be installed with it: --dependencies Install, which is spec.install.dependencies.policy"},
		{"configuration", olmv1.ReasonInvalidConfiguration, `unknown field "spout"`, "correct spec.config of the extension as the message says"},
		{"another obstacle", olmv1.ReasonBlocked, "it has two ClusterServiceVersions", "change what the message names; see 'mainstay extension status kettle'"},
		{"anything else", olmv1.ReasonRetrying, "the server is away", "see 'mainstay extension status kettle'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFacts(account, progressing(string(metav1.ConditionTrue), test.reason, test.message))
			if got := Advice(SubjectOf(f.Extension), test.reason, test.message); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			if did := strings.Join(Explain(f).Do, "\n"); !strings.Contains(did, test.want[1:]) {
				t.Errorf("got the advice %q of explain, want %q in it", did, test.want)
			}
		})
	}
}

// An extension that is only planned has no status.
func TestPlanAdvice(t *testing.T) {
	const unsafeCRD = `validating upgrade for CRD "mugs.example.com" failed: v1: ^.spec.size: a field was removed`
	for _, test := range []struct{ rollback, problem, want string }{
		{"", `namespace "kitchen" does not exist: create it`, "create it: kubectl create namespace kitchen"},
		{"", "the registry does not answer", "change what the plan names: 'mainstay extension plan kettle' shows all of it"},
		{"", unsafeCRD, "the update would change a CRD in a way that can lose data: choose another version, or accept that with --crd-upgrade-safety None, as in 'mainstay extension upgrade kettle --crd-upgrade-safety None'"},
		{"mainstay extension rollback kettle --to-revision 3", unsafeCRD, "the rollback would change a CRD in a way that can lose data: choose another revision with --to-revision, or accept that with --crd-upgrade-safety None, as in 'mainstay extension rollback kettle --to-revision 3 --crd-upgrade-safety None'"},
	} {
		s := Subject{Name: "kettle", Namespace: "kitchen", RollbackCommand: test.rollback}
		if got := PlanAdvice(s, test.problem); got != test.want {
			t.Errorf("about %q: got %q, want %q", test.problem, got, test.want)
		}
	}
}

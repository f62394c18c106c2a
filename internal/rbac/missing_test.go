package rbac

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const (
	header = "pre-authorization failed: service account requires the following permissions to manage cluster extension:"

	service = `
apiVersion: v1
kind: Service
metadata: {namespace: pipelines, name: front}`

	deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: pipelines, name: pipelines}`

	clusterRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: operator}
rules:
- {apiGroups: [""], resources: [pods, secrets], verbs: [get, list]}
- {nonResourceURLs: [/metrics], verbs: [get]}`

	clusterRoleBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: operator}
subjects: [{kind: ServiceAccount, namespace: place, name: operator}]`

	aRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: place, name: operator}
rules:
- {apiGroups: [apps], resources: [deployments], resourceNames: [one], verbs: [get, patch]}`

	roleBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: place, name: operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: operator}`

	roleBindingToView = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: place, name: operator-view}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}`

	aggregated = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gathering}
aggregationRule:
  clusterRoleSelectors:
  - matchLabels: {gathered: "true"}`
)

// manage has the permissions that the account needs to manage RBAC objects, regardless of their rules.
var manage = everywhere("create,list,watch,get,update,patch,delete rbac.authorization.k8s.io roles,rolebindings,clusterroles,clusterrolebindings")

// view is a ClusterRole that exists.
var view = rbacv1.ClusterRole{
	ObjectMeta: metav1.ObjectMeta{Name: "view", Labels: map[string]string{"gathered": "true"}},
	Rules:      []rbacv1.PolicyRule{rule("get core configmaps")},
}

func TestMissing(t *testing.T) {
	for _, test := range []struct {
		name    string
		objects []string
		grants  []Gap
		exists  []rbacv1.ClusterRole
		owner   string
		want    []string // lines; the first begins after "pre-authorization failed: "
	}{
		{
			name:    "example of the documentation",
			objects: []string{service, deployment},
			grants: []Gap{
				everywhere("create,get,update,patch,delete core services"),
				everywhere("list,watch,get,update,patch,delete apps deployments"),
			},
			want: []string{
				header,
				`  Namespace:"" APIGroups:[] Resources:[services] Verbs:[list,watch]`,
				`  Namespace:"pipelines" APIGroups:[apps] Resources:[deployments] Verbs:[create]`,
			},
		},
		{
			name:    "nothing is granted",
			objects: []string{service, strings.Replace(service, "front", "back", 1)},
			want: []string{
				header,
				`  Namespace:"" APIGroups:[] Resources:[services] Verbs:[list,watch]`,
				`  Namespace:"pipelines" APIGroups:[] Resources:[services] ResourceNames:[back,front] Verbs:[delete,get,patch,update]`,
				`  Namespace:"pipelines" APIGroups:[] Resources:[services] Verbs:[create]`,
			},
		},
		{
			name:    "exactly the needed permissions",
			objects: []string{service},
			grants: []Gap{
				everywhere("list,watch core services"),
				within("pipelines", "create core services"),
				within("pipelines", "get,update,patch,delete core services front"),
			},
		},
		{
			name:    "for another name",
			objects: []string{service},
			grants: []Gap{
				everywhere("list,watch,create core services"),
				within("pipelines", "get,update,patch,delete core services rear"),
			},
			want: []string{header, `  Namespace:"pipelines" APIGroups:[] Resources:[services] ResourceNames:[front] Verbs:[delete,get,patch,update]`},
		},
		{
			name:    "finalizers of the extension",
			objects: []string{service},
			grants:  []Gap{everywhere("* core services")},
			owner:   "my-extension",
			want:    []string{header, `  Namespace:"" APIGroups:[olm.operatorframework.io] Resources:[clusterextensions/finalizers] ResourceNames:[my-extension] Verbs:[update]`},
		},
		{
			name:    "escalation",
			objects: []string{clusterRole, clusterRoleBinding, aRole, roleBinding},
			grants:  []Gap{manage, everywhere("get core pods"), within("place", "get apps *")},
			want: []string{
				header,
				`  Namespace:"" APIGroups:[] Resources:[pods] Verbs:[list]`,
				`  Namespace:"" APIGroups:[] Resources:[secrets] Verbs:[get,list]`,
				`  Namespace:"" Verbs:[get] NonResourceURLs:[/metrics]`,
				`  Namespace:"place" APIGroups:[apps] Resources:[deployments] ResourceNames:[one] Verbs:[patch]`,
			},
		},
		{
			name:    "escalation is allowed",
			objects: []string{clusterRole, clusterRoleBinding, aRole, roleBinding},
			grants: []Gap{
				manage,
				everywhere("escalate,bind rbac.authorization.k8s.io clusterroles operator"),
				within("place", "escalate,bind rbac.authorization.k8s.io roles operator"),
			},
		},
		{
			name:    "writing a role is allowed, binding it is not",
			objects: []string{aRole, roleBinding},
			grants:  []Gap{manage, everywhere("escalate rbac.authorization.k8s.io roles")},
			want:    []string{header, `  Namespace:"place" APIGroups:[apps] Resources:[deployments] ResourceNames:[one] Verbs:[get,patch]`},
		},
		{
			name:    "escalation of another role is allowed",
			objects: []string{aRole},
			grants:  []Gap{manage, everywhere("escalate rbac.authorization.k8s.io roles other")},
			want:    []string{header, `  Namespace:"place" APIGroups:[apps] Resources:[deployments] ResourceNames:[one] Verbs:[get,patch]`},
		},
		{
			name:    "every verb is more than all verbs",
			objects: []string{strings.Replace(aRole, "[get, patch]", `["*"]`, 1)},
			grants:  []Gap{manage, everywhere("get,list,watch,create,update,patch,delete,deletecollection apps deployments")},
			want:    []string{header, `  Namespace:"place" APIGroups:[apps] Resources:[deployments] ResourceNames:[one] Verbs:[*]`},
		},
		{
			name:    "role that exists",
			objects: []string{roleBindingToView},
			exists:  []rbacv1.ClusterRole{view},
			grants:  []Gap{manage},
			want:    []string{header, `  Namespace:"place" APIGroups:[] Resources:[configmaps] Verbs:[get]`},
		},
		{
			name:    "role that exists may be bound in the namespace",
			objects: []string{roleBindingToView},
			exists:  []rbacv1.ClusterRole{view},
			grants:  []Gap{manage, within("place", "bind rbac.authorization.k8s.io clusterroles view")},
		},
		{
			name:    "role that does not exist",
			objects: []string{roleBindingToView, service},
			grants:  []Gap{manage, everywhere("list,watch,get,update,patch,delete core services")},
			want: []string{
				header,
				`  Namespace:"pipelines" APIGroups:[] Resources:[services] Verbs:[create]`,
				`authorization evaluation error: RoleBinding "place/operator-view": it refers to ClusterRole "view", which does not exist: create that, or grant the verb bind on it`,
			},
		},
		{
			name:    "role that does not exist may be bound",
			objects: []string{roleBindingToView},
			grants:  []Gap{manage, everywhere("bind rbac.authorization.k8s.io clusterroles")},
		},
		{
			name:    "Role of another namespace",
			objects: []string{aRole, strings.Replace(roleBinding, "namespace: place", "namespace: elsewhere", 1)},
			grants:  []Gap{manage, everywhere("* apps deployments")},
			want:    []string{`authorization evaluation error: RoleBinding "elsewhere/operator": it refers to Role "elsewhere/operator", which does not exist: create that, or grant the verb bind on it`},
		},
		{
			name:    "cluster binding of a Role",
			objects: []string{strings.Replace(clusterRoleBinding, "kind: ClusterRole,", "kind: Role,", 1)},
			grants:  []Gap{everywhere("* * *")},
			want:    []string{`authorization evaluation error: ClusterRoleBinding "operator": it cannot refer to kind "Role"`},
		},
		{
			name:    "objects that cannot be judged",
			objects: []string{"apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}", strings.Replace(service, "namespace: pipelines, ", "", 1), strings.Replace(service, ", name: front", "", 1)},
			grants:  []Gap{everywhere("* * *")},
			want: []string{
				`authorization evaluation error: Service "front": it is of a namespaced kind and has no namespace`,
				`authorization evaluation error: Service "pipelines/": it has no name`,
				`authorization evaluation error: Thing "x": the cluster does not serve Thing`,
			},
		},
		{
			name:    "invalid role",
			objects: []string{strings.Replace(aRole, "apiGroups: [apps]", "apiGroups: apps", 1), roleBinding},
			grants:  []Gap{manage},
			want:    []string{`authorization evaluation error: Role "place/operator": cannot restore slice from string`},
		},
		{
			name: "kind that the objects define",
			objects: []string{`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: mice.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Mouse, plural: mice}`, `
apiVersion: example.com/v1
kind: Mouse
metadata: {namespace: place, name: jerry}`},
			want: []string{
				header,
				`  Namespace:"" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] ResourceNames:[mice.example.com] Verbs:[delete,get,patch,update]`,
				`  Namespace:"" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] Verbs:[create,list,watch]`,
				`  Namespace:"" APIGroups:[example.com] Resources:[mice] Verbs:[list,watch]`,
				`  Namespace:"place" APIGroups:[example.com] Resources:[mice] ResourceNames:[jerry] Verbs:[delete,get,patch,update]`,
				`  Namespace:"place" APIGroups:[example.com] Resources:[mice] Verbs:[create]`,
			},
		},
		{
			name:    "aggregated role",
			objects: []string{aggregated},
			grants:  []Gap{manage, everywhere("get * *")},
			want:    []string{header, `  Namespace:"" APIGroups:[*] Resources:[*] Verbs:[*]`, `  Namespace:"" Verbs:[*] NonResourceURLs:[*]`},
		},
		{
			name:    "binding of an aggregated role",
			objects: []string{aggregated, strings.Replace(roleBindingToView, "name: view}", "name: gathering}", 1)},
			exists:  []rbacv1.ClusterRole{view},
			grants:  []Gap{manage, everywhere("escalate rbac.authorization.k8s.io clusterroles")},
			want:    []string{header, `  Namespace:"place" APIGroups:[] Resources:[configmaps] Verbs:[get]`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := granting(test.grants...)
			policy.ClusterRoles = append(policy.ClusterRoles, test.exists...)
			required := Required(parse(t, strings.Join(test.objects, "\n---\n")), Options{Resource: resource, Policy: policy, Extension: test.owner})
			err := Missing(required, policy.Granted(installer))
			got := ""
			if err != nil {
				got = err.Error()
			}
			want := strings.Join(test.want, "\n")
			if len(test.want) > 0 && test.want[0] != header {
				want = "pre-authorization failed: " + want
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMissingLimitsWork checks a role with more permissions than can be expanded.
func TestMissingLimitsWork(t *testing.T) {
	list := make([]string, 10_000)
	for i := range list {
		list[i] = fmt.Sprint("x", i)
	}

	huge := rbacv1.PolicyRule{Verbs: list, APIGroups: list, Resources: list, ResourceNames: list}
	required := &Requirements{Delegations: []Delegation{
		{Rules: []rbacv1.PolicyRule{huge}, Alternative: Permission{Verb: "escalate"}},
		{Rules: []rbacv1.PolicyRule{rule("get core pods")}, Alternative: Permission{Verb: "escalate"}},
	}}
	var missing *MissingError
	if err := Missing(required, granting().Granted(installer)); !errors.As(err, &missing) || len(missing.Errors) != 1 {
		t.Fatalf("got %v, want a single error", err)
	}
	if want := "too many permissions"; !strings.Contains(missing.Error(), want) {
		t.Errorf("got %q, want one that contains %q", missing, want)
	}
	if err := Missing(required, granting(everywhere("* * *")).Granted(installer)); err != nil {
		t.Errorf("got missing permissions of an administrator: %v", err)
	}
}

// TestReportIsCompact checks the rules of an operator as they are often written: long and
// repeated.
func TestReportIsCompact(t *testing.T) {
	objects := parse(t, strings.Join([]string{clusterRole, clusterRoleBinding, aRole, roleBinding, service, deployment, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: many}
rules:
- {apiGroups: [""], resources: [pods, services, configmaps, secrets], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [""], resources: [pods], resourceNames: [a, b], verbs: [get, delete]}
- {apiGroups: [apps], resources: [deployments, deployments/status, "*/scale", statefulsets/scale], verbs: ["*"]}
- {apiGroups: [apps], resources: [deployments], verbs: [get, list]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [lock], verbs: [get, update]}
- {nonResourceURLs: ["/metrics", "/metrics/*", "/metrics/cadvisor", "/healthz"], verbs: [get]}`}, "\n---\n"))

	required := Required(objects, Options{Resource: resource})
	err := Missing(required, (&Policy{}).Granted(installer))
	if err == nil {
		t.Fatal("got nothing missing, want a report")
	}

	golden.Check(t, "report.txt", []byte(err.Error()+"\n"))
}

// BenchmarkMissing measures the worst case: an account with 100 rules that grant no needed permission, and
// maxExpandedPermissions.
func BenchmarkMissing(b *testing.B) {
	var gaps []Gap
	for i := range 100 {
		gaps = append(gaps, everywhere(fmt.Sprintf("get,list,watch,create,update,patch,delete group%d.example.com a,b,c", i)))
	}

	granted := granting(gaps...).Granted(installer)
	list := make([]string, maxExpandedPermissions/100)
	for i := range list {
		list[i] = fmt.Sprint("x", i)
	}

	rules := []rbacv1.PolicyRule{{Verbs: list[:10], APIGroups: list[:10], Resources: list}}
	required := &Requirements{Delegations: []Delegation{{Rules: rules, Alternative: Permission{Verb: "escalate"}}}}
	for b.Loop() {
		if got := len(gapsOf(b, Missing(required, granted))); got != 10 {
			b.Fatalf("%d gaps", got)
		}
	}
}

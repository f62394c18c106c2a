package rbac

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAllows(t *testing.T) {
	pods := Permission{Namespace: "a", Resource: "pods", Verb: "get"}
	logs := Permission{Namespace: "a", Resource: "pods/log", Verb: "get"}
	named := Permission{Namespace: "a", Resource: "pods", Name: "x", Verb: "get"}
	cluster := Permission{Resource: "pods", Verb: "get"}
	for _, test := range []struct {
		name  string
		grant Gap
		ask   Permission
		want  bool
	}{
		{"same", within("a", "get core pods"), pods, true},
		{"other verb", within("a", "list core pods"), pods, false},
		{"any verb", within("a", "* core pods"), pods, true},
		{"every verb but not any verb", within("a", "get,list,watch,create,update,patch,delete core pods"), Permission{Namespace: "a", Resource: "pods", Verb: "*"}, false},
		{"other group", within("a", "get apps pods"), pods, false},
		{"any group", within("a", "get * pods"), pods, true},
		{"any resource", within("a", "get core *"), pods, true},
		{"other namespace", within("b", "get core pods"), pods, false},
		{"whole cluster", everywhere("get core pods"), pods, true},
		{"one namespace is not the cluster", within("a", "get core pods"), cluster, false},
		{"subresource is not in its resource", within("a", "get core pods"), logs, false},
		{"subresource", within("a", "get core pods/log"), logs, true},
		{"subresource of any", within("a", "get core */log"), logs, true},
		{"other subresource of any", within("a", "get core */status"), logs, false},
		{"subresource of any is not a resource", within("a", "get core */log"), pods, false},
		{"any resource has its subresources", within("a", "get core *"), logs, true},
		{"no wildcard for the subresources of one resource", within("a", "get core pods/*"), logs, false},
		{"name", within("a", "get core pods x,y"), named, true},
		{"other name", within("a", "get core pods y"), named, false},
		{"any name", within("a", "get core pods"), named, true},
		{"a name is not every name", within("a", "get core pods x"), pods, false},
		{"url", everywhere("get /healthz"), Permission{URL: "/healthz", Verb: "get"}, true},
		{"url below", everywhere("get /healthz"), Permission{URL: "/healthz/etcd", Verb: "get"}, false},
		{"url wildcard", everywhere("get /healthz/*"), Permission{URL: "/healthz/etcd", Verb: "get"}, true},
		{"url wildcard itself", everywhere("get /healthz/*"), Permission{URL: "/healthz/*", Verb: "get"}, true},
		{"url wider wildcard", everywhere("get /healthz/*"), Permission{URL: "/*", Verb: "get"}, false},
		{"url wildcard in the middle", everywhere("get /a/*/b"), Permission{URL: "/a/x/b", Verb: "get"}, false},
		{"url other verb", everywhere("post /healthz"), Permission{URL: "/healthz", Verb: "get"}, false},
		{"url is not a resource", everywhere("get /*"), cluster, false},
		{"resource is not a url", everywhere("* * *"), Permission{URL: "/healthz", Verb: "get"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := granting(test.grant).Granted(installer).Allows(test.ask); got != test.want {
				t.Errorf("%s allows %+v: got %t, want %t", test.grant.String(), test.ask, got, test.want)
			}
		})
	}
}

func TestGrantedFollowsBindings(t *testing.T) {
	viewer := rbacv1.RoleRef{Kind: kindClusterRole, Name: "viewer"}
	editor := rbacv1.RoleRef{Kind: kindRole, Name: "editor"}
	account := func(namespace string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "installer"}
	}
	inA := Permission{Namespace: "a", Resource: "pods", Verb: "get"}
	edit := Permission{Namespace: "a", Resource: "pods", Verb: "update"}
	everywhere := Permission{Resource: "pods", Verb: "get"}
	for _, test := range []struct {
		name      string
		namespace string // of the binding
		ref       rbacv1.RoleRef
		subject   rbacv1.Subject
		ask       Permission
		want      bool
	}{
		{"cluster binding", "", viewer, account("place"), everywhere, true},
		{"cluster binding of another's account", "", viewer, account("elsewhere"), everywhere, false},
		{"cluster binding without the account's namespace", "", viewer, account(""), everywhere, false},
		{"cluster binding of a Role", "", editor, account("place"), edit, false},
		{"binding of a ClusterRole", "a", viewer, account("place"), inA, true},
		{"binding of a ClusterRole holds in its namespace", "a", viewer, account("place"), everywhere, false},
		{"binding of a Role", "a", editor, account("place"), edit, true},
		{"binding of a Role of another namespace", "b", editor, account("place"), edit, false},
		{"binding without the account's namespace, in another", "a", viewer, account(""), inA, false},
		{"binding without the account's namespace, in its own", "place", viewer, account(""), Permission{Namespace: "place", Resource: "pods", Verb: "get"}, true},
		{"binding to a missing role", "", rbacv1.RoleRef{Kind: kindClusterRole, Name: "nobody"}, account("place"), everywhere, false},
		{"by user name", "", viewer, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "system:serviceaccount:place:installer"}, everywhere, true},
		{"another user", "", viewer, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "installer"}, everywhere, false},
		{"all accounts", "", viewer, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts"}, everywhere, true},
		{"accounts of the namespace", "", viewer, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:place"}, everywhere, true},
		{"accounts of another namespace", "", viewer, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:a"}, everywhere, false},
		{"all authenticated users", "", viewer, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:authenticated"}, everywhere, true},
		{"all unauthenticated users", "", viewer, rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:unauthenticated"}, everywhere, false},
		{"unknown kind of subject", "", viewer, rbacv1.Subject{Kind: "Robot", Name: "installer"}, everywhere, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := Policy{
				ClusterRoles: []rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, Rules: []rbacv1.PolicyRule{rule("get core pods")}}},
				Roles:        []rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Name: "editor", Namespace: "a"}, Rules: []rbacv1.PolicyRule{rule("update core pods")}}},
			}
			if test.namespace == "" {
				policy.ClusterRoleBindings = []rbacv1.ClusterRoleBinding{{Subjects: []rbacv1.Subject{test.subject}, RoleRef: test.ref}}
			} else {
				policy.RoleBindings = []rbacv1.RoleBinding{{
					ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace}, Subjects: []rbacv1.Subject{test.subject}, RoleRef: test.ref,
				}}
			}
			if got := policy.Granted(installer).Allows(test.ask); got != test.want {
				t.Errorf("allows %+v: got %t, want %t", test.ask, got, test.want)
			}
		})
	}
}

func TestMastersMayDoEverything(t *testing.T) {
	granted := (&Policy{}).Granted(Identity{User: "root", Groups: []string{"system:masters"}})
	for _, ask := range []Permission{{Group: "apps", Resource: "deployments", Verb: "delete"}, {URL: "/x", Verb: "get"}} {
		if !granted.Allows(ask) {
			t.Errorf("got %+v denied, want it allowed", ask)
		}
	}
}

func TestCovers(t *testing.T) {
	rule := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"pods"}}
	}
	subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "ns", Name: "sa"}}
	policy := &Policy{
		Roles:               []rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}, Rules: []rbacv1.PolicyRule{rule("get")}}},
		RoleBindings:        []rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Subjects: subject, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}}},
		ClusterRoles:        []rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{rule("list")}}},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{{Subjects: subject, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}}},
	}

	granted := policy.Granted(ServiceAccount("ns", "sa"))
	wanted := rule("get", "list")
	if !granted.Covers("ns", &wanted) {
		t.Error("got a rule denied that two rules cover together, want it covered")
	}

	for _, elsewhere := range []string{"", "other"} {
		if granted.Covers(elsewhere, &wanted) {
			t.Errorf("got a rule of one namespace covered in %q, want it denied", elsewhere)
		}
	}

	more := rule("get", "watch")
	if granted.Covers("ns", &more) {
		t.Error("got a rule covered that was not granted, want it denied")
	}

	huge := rule(make([]string, maxExpandedPermissions+1)...)
	if granted.Covers("ns", &huge) {
		t.Error("got a rule covered that is too large to expand, want it denied")
	}
}

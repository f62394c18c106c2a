package rbac

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestLeast(t *testing.T) {
	for _, test := range []struct {
		name      string
		objects   []string
		owner     string
		want      []Gap
		unlimited bool
	}{
		{
			name:    "in the cluster, in the namespace, and by name",
			objects: []string{service, strings.Replace(service, "front", "back", 1)},
			owner:   "pipes",
			want: []Gap{
				everywhere("list,watch core services"),
				everywhere("update olm.operatorframework.io clusterextensions/finalizers pipes"),
				within("pipelines", "create core services"),
				within("pipelines", "delete,get,patch,update core services back,front"),
			},
		},
		{
			name:    "the Secret of a serving certificate",
			objects: []string{strings.Replace(service, "metadata: {", "metadata: {annotations: {mainstay.dev/serving-certificate: front-serving}, ", 1)},
			want: []Gap{
				everywhere("list,watch core services"),
				within("pipelines", "create core secrets,services"),
				within("pipelines", "delete,get,patch,update core services front"),
				within("pipelines", "get,list,update,watch core secrets front-serving"),
			},
		},
		{
			name:    "the permissions of the roles are granted, but not escalate and bind",
			objects: []string{aRole, roleBinding},
			want: []Gap{
				everywhere("list,watch rbac.authorization.k8s.io rolebindings,roles"),
				within("place", "get,patch apps deployments one"),
				within("place", "create rbac.authorization.k8s.io rolebindings,roles"),
				within("place", "delete,get,patch,update rbac.authorization.k8s.io rolebindings,roles operator"),
			},
		},
		{
			name:    "a role that is not among the objects may be bound",
			objects: []string{roleBindingToView},
			want: []Gap{
				everywhere("list,watch rbac.authorization.k8s.io rolebindings"),
				within("place", "bind rbac.authorization.k8s.io clusterroles view"),
				within("place", "create rbac.authorization.k8s.io rolebindings"),
				within("place", "delete,get,patch,update rbac.authorization.k8s.io rolebindings operator-view"),
			},
		},
		{
			name:    "an aggregated role may be written and bound",
			objects: []string{aggregated, strings.NewReplacer("name: view}", "name: gathering}").Replace(roleBindingToView)},
			want: []Gap{
				everywhere("create,list,watch rbac.authorization.k8s.io clusterroles"),
				everywhere("delete,escalate,get,patch,update rbac.authorization.k8s.io clusterroles gathering"),
				everywhere("list,watch rbac.authorization.k8s.io rolebindings"),
				within("place", "bind rbac.authorization.k8s.io clusterroles gathering"),
				within("place", "create rbac.authorization.k8s.io rolebindings"),
				within("place", "delete,get,patch,update rbac.authorization.k8s.io rolebindings operator-view"),
			},
		},
		{
			name: "an account that may escalate and bind needs no permissions of the role",
			objects: []string{clusterRoleBinding, strings.Replace(clusterRole, "rules:",
				"rules:\n- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [\"*\"]}", 1)},
			want: []Gap{
				everywhere("create,list,watch rbac.authorization.k8s.io clusterrolebindings"),
				everywhere("delete,get,patch,update rbac.authorization.k8s.io clusterrolebindings operator"),
				everywhere("* rbac.authorization.k8s.io clusterroles"),
			},
			unlimited: true,
		},
		{
			name: "an account that may write every role but not bind it needs the bound permissions",
			objects: []string{clusterRoleBinding, strings.Replace(clusterRole, "rules:",
				"rules:\n- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [escalate]}", 1)},
			want: []Gap{
				everywhere("get,list core pods,secrets"),
				everywhere("create,list,watch rbac.authorization.k8s.io clusterrolebindings"),
				everywhere("delete,get,patch,update rbac.authorization.k8s.io clusterrolebindings,clusterroles operator"),
				everywhere("create,escalate,list,watch rbac.authorization.k8s.io clusterroles"),
				everywhere("get /metrics"),
			},
			unlimited: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			required := Required(parse(t, strings.Join(test.objects, "\n---\n")), Options{Resource: BundleResource, Extension: test.owner})
			got, err := Least(required)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(texts(test.want), texts(got)); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if CanEscalate(got) != test.unlimited {
				t.Errorf("the account can obtain every permission: got %t, want %t", !test.unlimited, test.unlimited)
			}
		})
	}
}

func texts(gaps []Gap) map[string]bool {
	result := map[string]bool{}
	for i := range gaps {
		result[gaps[i].String()] = true
	}
	return result
}

// TestLeastOfTwoVersions checks an account that writes and binds two versions of a role one after the other.
func TestLeastOfTwoVersions(t *testing.T) {
	powerful := strings.Replace(aRole, "rules:", "rules:\n- {apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [escalate]}", 1)
	var required []*Requirements
	for _, version := range []string{aRole, powerful} {
		required = append(required, Required(parse(t, version+"\n---\n"+roleBinding), Options{Resource: BundleResource}))
	}

	for _, versions := range [][]*Requirements{required, {required[1], required[0]}} {
		grants, err := Least(versions...)
		if err != nil {
			t.Fatal(err)
		}
		for i, version := range versions {
			if err := Missing(version, GrantedBy(grants)); err != nil {
				t.Errorf("version %d: %v", i, err)
			}
		}
	}
}

func TestLeastOfWhatCannotBeJudged(t *testing.T) {
	required := Required(parse(t, service+"\n---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: place, name: x}"), Options{Resource: BundleResource})
	_, err := Least(required)
	var missing *MissingError
	if want := `Pod "place/x": bundles have no objects of kind /v1, Kind=Pod`; !errors.As(err, &missing) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestLeastOfTooMuch checks that a role with too many permissions to expand needs the verb escalate instead.
func TestLeastOfTooMuch(t *testing.T) {
	huge := rule("get core pods")
	huge.ResourceNames = make([]string, maxExpandedPermissions+1)
	instead := Permission{Group: "rbac.authorization.k8s.io", Resource: "roles", Name: "huge", Namespace: "place", Verb: "escalate"}
	got, err := Least(&Requirements{Delegations: []Delegation{{Namespace: "place", Alternative: instead, Rules: []rbacv1.PolicyRule{huge, rule("get core secrets")}}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(texts([]Gap{{"place", instead.toPolicyRule()}}), texts(got)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// FuzzLeast checks that the rules suffice, that all of their permissions are needed, and that
// Missing reports each removed permission. It is reported alone, unless the delegated rules allow delegating more.
func FuzzLeast(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, seed%2 == 0)
	}

	f.Fuzz(func(t *testing.T, seed uint64, powerful bool) {
		g := &generator{rand.New(rand.NewPCG(seed, 1)), powerful}
		required := Required(append(g.objects(t), g.odd(t)...), Options{Resource: resource, Extension: "extension"})
		grants, err := Least(required)
		if err != nil {
			t.Fatal(err)
		}
		if err := Missing(required, GrantedBy(grants)); err != nil {
			t.Fatalf("got missing permissions with the least rules: %v", err)
		}

		set := map[Permission]struct{}{}
		for _, grant := range grants {
			for p := range expandPermissions(grant.Namespace, &grant.Rule) {
				set[p] = struct{}{}
			}
		}

		for p := range set {
			rest := map[Permission]struct{}{}
			for other := range set {
				if other != p {
					rest[other] = struct{}{}
				}
			}

			err := Missing(required, GrantedBy(compactRules(rest)))
			if err == nil {
				t.Fatalf("got nothing missing without %+v, want it reported", p)
			}

			isDelegating := p.Group == "rbac.authorization.k8s.io" || p.Group == wildcard
			if want := []Gap{{p.Namespace, p.toPolicyRule()}}; !isDelegating && !cmp.Equal(want, gapsOf(t, err)) {
				t.Fatalf("without %+v: got %v, want only this permission", p, err)
			}
		}
	})
}

// odd returns nothing, a binding to a role that does not exist, or an aggregated role.
func (g *generator) odd(t *testing.T) []unstructured.Unstructured {
	switch g.IntN(3) {
	case 0:
		return parse(t, roleBindingToView)
	case 1:
		return parse(t, aggregated)
	default:
		return nil
	}
}

// TestInstallerObjects checks that the objects grant the requested rules, and only to the account.
func TestInstallerObjects(t *testing.T) {
	grants := []Gap{everywhere("list core services"), everywhere("get /metrics"), within("place", "create core services"), within("other", "get apps deployments x")}
	i := Installer{Extension: "pipes", Namespace: "place"}
	var names []string
	for _, object := range i.Objects(grants) {
		names = append(names, describeObject(object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace(), object.GetName()))
	}

	want := []string{
		`ServiceAccount "place/pipes-installer"`,
		`ClusterRole "pipes-installer-clusterrole"`, `ClusterRoleBinding "pipes-installer-binding"`,
		`Role "other/pipes-installer-role"`, `RoleBinding "other/pipes-installer-binding"`,
		`Role "place/pipes-installer-role"`, `RoleBinding "place/pipes-installer-binding"`,
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}

	i.ServiceAccount = "cook"
	granted := policyOf(t, i.Objects(grants)).Granted(ServiceAccount("place", "cook"))
	for _, grant := range grants {
		for p := range expandPermissions(grant.Namespace, &grant.Rule) {
			if !granted.Allows(p) {
				t.Errorf("got %+v denied, want it granted", p)
			}
		}
	}

	if granted.Allows(Permission{Namespace: "third", Resource: "services", Verb: "create"}) {
		t.Error("a rule of one namespace grants permissions in another")
	}
}

func TestBundleResourceKnowsCRDsOnlyFromObjects(t *testing.T) {
	if _, err := BundleResource(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Mouse"}); err == nil {
		t.Error("got the resource of a kind without its CRD, want an error")
	}
}

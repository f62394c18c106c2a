package rbac

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// generator creates random sets of objects from a few words, so that they often overlap.
type generator struct {
	*rand.Rand
	// powerful allows rules for every API group, including that of roles. Such a rule may make
	// others redundant, as it has the verbs escalate and bind.
	powerful bool
}

func (g *generator) one(words ...string) string { return words[g.IntN(len(words))] }

func (g *generator) some(words ...string) []string {
	g.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return slices.Clone(words[:1+g.IntN(min(3, len(words)))])
}

func (g *generator) rules(urls bool) []rbacv1.PolicyRule {
	rules := make([]rbacv1.PolicyRule, 0, 3)
	for range g.IntN(4) {
		verbs := g.some("get", "list", "watch", "create", "patch", "*")
		if urls && g.IntN(4) == 0 {
			rules = append(rules, rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: g.some("/a", "/a/b", "/a/*", "/*", "/b")})
			continue
		}

		groups := []string{"", "apps", "example.com"}
		if g.powerful {
			groups = append(groups, "*", rbacv1.GroupName)
		}

		r := rbacv1.PolicyRule{
			Verbs: verbs, APIGroups: g.some(groups...),
			Resources: g.some("services", "deployments", "deployments/scale", "*/scale", "mice", "*"),
		}
		if g.IntN(3) == 0 {
			r.ResourceNames = g.some("a", "b", "c")
		}

		rules = append(rules, r)
	}

	return rules
}

func (g *generator) objects(t *testing.T) []unstructured.Unstructured {
	var objects []unstructured.Unstructured
	add := func(object any) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, unstructured.Unstructured{Object: content})
	}

	kind := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	for i := range g.IntN(4) {
		namespace, name := g.one("a", "b"), fmt.Sprint("role-", i)
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
		add(&rbacv1.Role{TypeMeta: kind(kindRole), ObjectMeta: meta, Rules: g.rules(false)})
		add(&rbacv1.RoleBinding{TypeMeta: kind(kindRoleBinding), ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: kindRole, Name: name}})
	}

	for i := range g.IntN(4) {
		name := fmt.Sprint("cluster-role-", i)
		meta := metav1.ObjectMeta{Name: name}
		ref := rbacv1.RoleRef{Kind: kindClusterRole, Name: name}
		add(&rbacv1.ClusterRole{TypeMeta: kind(kindClusterRole), ObjectMeta: meta, Rules: g.rules(true)})
		if g.IntN(2) == 0 {
			add(&rbacv1.ClusterRoleBinding{TypeMeta: kind(kindClusterRoleBinding), ObjectMeta: meta, RoleRef: ref})
		} else {
			meta.Namespace = g.one("a", "b")
			add(&rbacv1.RoleBinding{TypeMeta: kind(kindRoleBinding), ObjectMeta: meta, RoleRef: ref})
		}
	}

	for range g.IntN(4) {
		object := unstructured.Unstructured{}
		object.SetAPIVersion("v1")
		object.SetKind(g.one("Service", "ConfigMap"))
		object.SetNamespace(g.one("a", "b"))
		object.SetName(g.one("a", "b", "c"))
		objects = append(objects, object)
	}

	return objects
}

// FuzzGaps grants the permissions that are reported missing, and checks that none is missing any more. It then
// revokes each of the permissions, and checks that only that one is reported.
func FuzzGaps(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed, seed%4 == 0)
	}

	f.Fuzz(func(t *testing.T, seed uint64, powerful bool) {
		g := &generator{rand.New(rand.NewPCG(seed, 0)), powerful}
		required := Required(g.objects(t), Options{Resource: resource, Extension: "extension"})
		gaps := gapsOf(t, Missing(required, (&Policy{}).Granted(installer)))
		if err := Missing(required, granting(gaps...).Granted(installer)); err != nil {
			t.Fatalf("got error %v after the missing permissions were granted, want none", err)
		}

		var parts []Gap
		for _, gap := range gaps {
			for p := range expandPermissions(gap.Namespace, &gap.Rule) {
				parts = append(parts, Gap{p.Namespace, p.toPolicyRule()})
			}
		}

		if powerful {
			return
		}

		for i, part := range parts {
			rest := slices.Delete(slices.Clone(parts), i, i+1)
			got := gapsOf(t, Missing(required, granting(rest...).Granted(installer)))
			if diff := cmp.Diff([]Gap{part}, got); diff != "" {
				t.Fatalf("%s is not granted; missing (-want +got):\n%s", part.String(), diff)
			}
		}
	})
}

// FuzzCompact compacts random permissions into rules and expands these again.
func FuzzCompact(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, seed uint64) {
		g := &generator{rand.New(rand.NewPCG(seed, 0)), true}
		set := map[Permission]struct{}{}
		for _, r := range slices.Concat(g.rules(true), g.rules(true)) {
			for p := range expandPermissions("", &r) {
				set[p] = struct{}{}
			}
		}

		seen := map[Permission]bool{}
		gaps := compactRules(set)
		for _, gap := range gaps {
			for p := range expandPermissions(gap.Namespace, &gap.Rule) {
				if _, ok := set[p]; !ok || seen[p] {
					t.Errorf("%+v in %s was not in the input, or occurs twice", p, gap.String())
				}
				seen[p] = true
			}
		}

		granted := granting(gaps...).Granted(installer)
		for p := range set {
			if !granted.Allows(p) {
				t.Errorf("got %+v denied by the compacted rules, want it granted", p)
			}
		}
	})
}

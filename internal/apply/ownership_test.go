package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

const (
	extension = olmv1.ClusterExtensionKind
	set       = olmv1.ClusterObjectSetKind
)

// testOwner is the second revision of the extension "app".
func testOwner() *Owner {
	return &Owner{
		Reference: metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: set, Name: "app-2", UID: "uid-2"},
		Labels:    map[string]string{olmv1.LabelOwnerKind: extension, olmv1.LabelOwnerName: "app"},
		Revision:  2,
		Siblings:  map[types.UID]int64{"uid-1": 1, "uid-3": 3, "uid-4": 0},
		Parent:    "uid-app",
	}
}

type liveOption func(u *unstructured.Unstructured)

func controlledBy(kind, name string, uid types.UID) liveOption {
	return func(u *unstructured.Unstructured) {
		yes := true
		version := olmv1.GroupVersion.String()
		if kind != set && kind != extension {
			version = "example.com/v1"
		}
		u.SetOwnerReferences(append(u.GetOwnerReferences(), metav1.OwnerReference{
			APIVersion: version, Kind: kind, Name: name, UID: uid, Controller: &yes, BlockOwnerDeletion: &yes,
		}))
	}
}

func labelled(name string) liveOption {
	return func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{olmv1.LabelOwnerKind: extension, olmv1.LabelOwnerName: name})
	}
}

func appliedByUs(fields string) liveOption {
	return func(u *unstructured.Unstructured) {
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fields),
		}})
	}
}

func deleting(u *unstructured.Unstructured) {
	now := metav1.Now()
	u.SetDeletionTimestamp(&now)
}

func live(options ...liveOption) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	u.SetName("config")
	for _, option := range options {
		option(u)
	}
	return u
}

func TestOwnership(t *testing.T) {
	all := func(v decision) [3]decision { return [3]decision{v, v, v} }
	cases := []struct {
		name string
		live *unstructured.Unstructured
		// want is the verdict for Prevent, IfNoController and None.
		want  [3]decision
		owner string
	}{
		{"absent", nil, all(create), ""},
		{"own", live(controlledBy(set, "app-2", "uid-2"), labelled("app")), all(update), `controlled by ClusterObjectSet "app-2" of ClusterExtension "app"`},
		{"own without labels", live(controlledBy(set, "app-2", "uid-2")), all(update), `controlled by ClusterObjectSet "app-2"`},
		{"own being deleted", live(controlledBy(set, "app-2", "uid-2"), deleting), all(await), `controlled by ClusterObjectSet "app-2"`},
		{"earlier revision's", live(controlledBy(set, "app-1", "uid-1"), labelled("app")), all(takeOver), `controlled by ClusterObjectSet "app-1" of ClusterExtension "app"`},
		{"earlier revision's that was deleted", live(controlledBy(set, "app-1", "uid-gone"), labelled("app")), all(takeOver), `controlled by ClusterObjectSet "app-1" of ClusterExtension "app"`},
		{"later revision's", live(controlledBy(set, "app-3", "uid-3"), labelled("app")), all(leave), `controlled by ClusterObjectSet "app-3" of ClusterExtension "app"`},
		{"later revision's being deleted", live(controlledBy(set, "app-3", "uid-3"), labelled("app"), deleting), all(leave), `controlled by ClusterObjectSet "app-3" of ClusterExtension "app"`},
		{"later revision's that the cache does not have", live(controlledBy(set, "app-7", "uid-7"), labelled("app")), all(leave), `controlled by ClusterObjectSet "app-7" of ClusterExtension "app"`},
		{"later revision's that was archived", live(controlledBy(set, "app-4", "uid-4"), labelled("app")), all(takeOver), `controlled by ClusterObjectSet "app-4" of ClusterExtension "app"`},
		{"the extension's", live(controlledBy(extension, "app", "uid-app"), labelled("app")), all(takeOver), `controlled by ClusterExtension "app"`},
		{"lost its controller", live(labelled("app"), appliedByUs("{}")), all(takeOver), `labelled as part of ClusterExtension "app"`},
		{"labelled by another client", live(labelled("app")), [3]decision{refuse, takeOver, takeOver}, `labelled as part of ClusterExtension "app"`},
		{"no controller", live(), [3]decision{refuse, takeOver, takeOver}, "not controlled by anything"},
		{"no controller, being deleted", live(deleting), all(await), "not controlled by anything"},
		{"other extension's", live(controlledBy(set, "other-1", "uid-other"), labelled("other")), [3]decision{refuse, refuse, takeOver},
			`controlled by ClusterObjectSet "other-1" of ClusterExtension "other"`},
		{"other extension itself's", live(controlledBy(extension, "other", "uid-x"), labelled("other")), [3]decision{refuse, refuse, takeOver}, `controlled by ClusterExtension "other"`},
		{"someone's", live(controlledBy("Gadget", "g", "uid-g")), [3]decision{refuse, refuse, takeOver}, `controlled by Gadget "g"`},
		{"another owner's with our labels", live(controlledBy("Gadget", "g", "uid-g"), labelled("app")), [3]decision{refuse, refuse, takeOver}, `controlled by Gadget "g" of ClusterExtension "app"`},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			got := [3]decision{
				decideAction(test.live, testOwner(), olmv1.CollisionProtectionPrevent),
				decideAction(test.live, testOwner(), olmv1.CollisionProtectionIfNoController),
				decideAction(test.live, testOwner(), olmv1.CollisionProtectionNone),
			}
			if got != test.want {
				t.Errorf("got verdicts %v, want %v", got, test.want)
			}
			if unset := decideAction(test.live, testOwner(), ""); unset != test.want[0] {
				t.Errorf("unset protection is not Prevent: %v", unset)
			}
			if test.live == nil {
				return
			}
			if owner := describeOwner(test.live); owner != test.owner {
				t.Errorf("owner:\n got %s\nwant %s", owner, test.owner)
			}
		})
	}
}

// A set without an extension recognizes only the objects that it controls itself.
func TestOwnershipWithoutLabels(t *testing.T) {
	owner := &Owner{Reference: metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: set, Name: "alone-1", UID: "uid-1"}, Revision: 1}
	for name, test := range map[string]struct {
		live *unstructured.Unstructured
		want decision
	}{
		"own":            {live(controlledBy(set, "alone-1", "uid-1")), update},
		"another set's":  {live(controlledBy(set, "alone-0", "uid-0")), refuse},
		"applied before": {live(appliedByUs("{}")), refuse},
	} {
		if got := decideAction(test.live, owner, olmv1.CollisionProtectionPrevent); got != test.want {
			t.Errorf("%s: got verdict %v, want %v", name, got, test.want)
		}
	}
}

func TestOwnerReferences(t *testing.T) {
	yes, no := true, false
	own := metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: set, Name: "app-2", UID: "uid-2", Controller: &yes, BlockOwnerDeletion: &yes}
	demoted := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Gadget", Name: "g", UID: "uid-g", Controller: &no}
	cases := []struct {
		name string
		live *unstructured.Unstructured
		want []metav1.OwnerReference
	}{
		{"absent", nil, []metav1.OwnerReference{own}},
		{"own", live(controlledBy(set, "app-2", "uid-2")), []metav1.OwnerReference{own}},
		{"applied by an earlier revision", live(controlledBy(set, "app-1", "uid-1"), appliedByUs(`{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"uid-1\"}":{}}}}`)), []metav1.OwnerReference{own}},
		{"someone's", live(controlledBy("Gadget", "g", "uid-g")), []metav1.OwnerReference{own, demoted}},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ownerReferences(test.live, testOwner())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

package apply

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: operator, namespace: NS}, spec: {
  selector: {matchLabels: {app: LABEL}}, template: {metadata: {labels: {app: LABEL}}, spec: {containers: [{name: a, image: b}]}}}}`

const binding = `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: operator, namespace: NS},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: LABEL}, subjects: [{kind: ServiceAccount, name: a, namespace: NS}]}`

// An update that changes an immutable field replaces the object, if that loses
// no data and the object belongs to the extension.
func TestImmutableFields(t *testing.T) {
	labelled := func(manifest, label string) string { return strings.ReplaceAll(manifest, "LABEL", label) }
	for name, manifest := range map[string]string{"deployment": deployment, "binding": binding} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			if result := b.applyObject(1, nil, labelled(manifest, "old")); result.Err != nil {
				t.Fatal(result.Err)
			}

			before := b.readObject(manifest)
			result := b.applyObject(2, nil, labelled(manifest, "new"))
			if result.Err != nil || result.Action != ActionRecovered {
				t.Fatalf("%s: %v", result.Action, result.Err)
			}

			after := b.readObject(manifest)
			if after.GetUID() == before.GetUID() || !strings.Contains(string(mustJSON(t, after)), `"new"`) {
				t.Errorf("the object was not replaced: %v", after.Object)
			}
			if !isControlledBy(after, ptr(b.newOwner(2))) {
				t.Errorf("the new object does not belong to the revision: %v", after.GetOwnerReferences())
			}
		})
	}
}

func TestImmutableFieldsOfOthers(t *testing.T) {
	b := newFixture(t)
	old, changed := strings.ReplaceAll(deployment, "LABEL", "old"), strings.ReplaceAll(deployment, "LABEL", "new")
	b.writeAs("somebody", old)
	before := b.readObject(deployment)
	result := b.applyObject(1, nil, changed, olmv1.CollisionProtectionNone)
	if result.Err == nil || result.Err.Cause != CauseInvalid {
		t.Errorf("the Deployment of another owner was replaced: %s %v", result.Action, result.Err)
	}
	if b.readObject(deployment).GetUID() != before.GetUID() {
		t.Error("the Deployment of another owner was deleted")
	}
}

// A second error in addition to the immutable field would prevent the creation of the new
// object, so the old one is not deleted.
func TestAnInvalidManifestReplacesNothing(t *testing.T) {
	b := newFixture(t)
	b.applyObject(1, nil, strings.ReplaceAll(deployment, "LABEL", "old"))
	before := b.readObject(deployment)
	bad := strings.ReplaceAll(strings.ReplaceAll(deployment, "LABEL", "new"), "name: a,", "name: Not_A_Name,")
	if result := b.applyObject(2, nil, bad); result.Err == nil || result.Err.Cause != CauseInvalid {
		t.Errorf("an invalid Deployment was applied: %s %v", result.Action, result.Err)
	}
	if b.readObject(deployment).GetUID() != before.GetUID() {
		t.Error("the working Deployment was deleted for one that cannot be created")
	}
}

func ptr[T any](value T) *T { return &value }

func mustJSON(t *testing.T, u *unstructured.Unstructured) []byte {
	t.Helper()
	data, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

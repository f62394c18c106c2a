package v1_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// rule is one case of the API's validation on a real API server: the base
// object with changed fields is accepted, or refused with a message that contains a text.
type rule struct {
	name string
	// set has the new values of fields, as YAML. "" removes the field.
	set map[string]string
	// then has the values of fields for an update after the object was created.
	then map[string]string
	// refused is a part of the message. Empty means that the write is accepted.
	refused string
}

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

const baseCatalog = `
apiVersion: olm.operatorframework.io/v1
kind: ClusterCatalog
spec: {source: {type: Image, image: {ref: quay.io/example/catalog:v1}}}`

func TestClusterCatalogRules(t *testing.T) {
	ref := func(value string) map[string]string { return map[string]string{"spec.source.image.ref": value} }
	check(t, baseCatalog, []rule{
		{name: "the base"},
		{name: "no source", set: map[string]string{"spec.source": ""}, refused: "spec.source"},
		{name: "unknown type", set: map[string]string{"spec.source.type": "Git"}, refused: "Unsupported value"},
		{name: "no image", set: map[string]string{"spec.source.image": ""}, refused: "image is required when type is Image"},
		{name: "empty ref", set: ref(`""`), refused: "at least 1"},
		{name: "long ref", set: ref("quay.io/" + strings.Repeat("a", 993) + ":v1"), refused: "1000"},
		{name: "ref without a registry", set: ref("catalog:v1"), refused: "registry's domain"},
		{name: "ref with a bad registry", set: ref("-quay.io/example/catalog:v1"), refused: "registry's domain"},
		{name: "ref with a port", set: ref("localhost:5000/catalog:v1")},
		{name: "ref with an IPv6 registry", set: ref(`"[::1]:5000/catalog:v1"`)},
		{name: "ref with an upper-case repository", set: ref("quay.io/Example/catalog:v1"), refused: "repository"},
		{name: "ref with separators", set: ref("quay.io/ex_am--ple/my.cata__log:v1")},
		{name: "ref without tag or digest", set: ref("quay.io/example/catalog"), refused: "must end with a tag or a digest"},
		{name: "ref with a port and no tag", set: ref("quay.io:443/example/catalog"), refused: "must end with a tag or a digest"},
		{name: "tag of 128", set: ref("quay.io/example/catalog:" + strings.Repeat("v", 128))},
		{name: "tag of 129", set: ref("quay.io/example/catalog:" + strings.Repeat("v", 129)), refused: "the tag must be"},
		{name: "tag with a bad start", set: ref("quay.io/example/catalog:-v1"), refused: "the tag must be"},
		{name: "digest", set: ref("quay.io/example/catalog" + digest)},
		{name: "tag and digest", set: ref("quay.io/example/catalog:v1" + digest)},
		{name: "short digest", set: ref("quay.io/example/catalog@sha256:0123"), refused: "the digest must be"},
		{name: "digest that is not hexadecimal", set: ref("quay.io/example/catalog@sha256:" + strings.Repeat("g", 64)), refused: "the digest must be"},
		{name: "digest with a bad algorithm", set: ref("quay.io/example/catalog@1sha:" + strings.Repeat("a", 64)), refused: "the digest must be"},
		{name: "poll interval", set: map[string]string{"spec.source.image.pollIntervalMinutes": "1"}},
		{name: "poll interval of 0", set: map[string]string{"spec.source.image.pollIntervalMinutes": "0"}, refused: "greater than or equal to 1"},
		{name: "poll interval with a digest", set: map[string]string{
			"spec.source.image.ref": "quay.io/example/catalog" + digest, "spec.source.image.pollIntervalMinutes": "10",
		}, refused: "cannot specify pollIntervalMinutes while using digest-based image"},
		{name: "lowest priority", set: map[string]string{"spec.priority": "-2147483648"}},
		{name: "highest priority", set: map[string]string{"spec.priority": "2147483647"}},
		{name: "priority too low", set: map[string]string{"spec.priority": "-2147483649"}, refused: "spec.priority"},
		{name: "priority too high", set: map[string]string{"spec.priority": "2147483648"}, refused: "spec.priority"},
		{name: "unavailable", set: map[string]string{"spec.availabilityMode": "Unavailable"}},
		{name: "unknown availability", set: map[string]string{"spec.availabilityMode": "Sometimes"}, refused: "Unsupported value"},
		{name: "the source may change", then: map[string]string{"spec.source.image.ref": "quay.io/example/catalog:v2"}},
	})
}

const baseExtension = `
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
spec:
  namespace: argocd
  serviceAccount: {name: installer}
  source: {sourceType: Catalog, catalog: {packageName: argocd-operator}}`

func TestClusterExtensionRules(t *testing.T) {
	const catalog = "spec.source.catalog."
	version := func(value string) map[string]string { return map[string]string{catalog + "version": value} }
	rules := []rule{
		{name: "the base"},
		{name: "no service account", set: map[string]string{"spec.serviceAccount": ""}},
		{name: "a service account may be added", set: map[string]string{"spec.serviceAccount": ""}, then: map[string]string{"spec.serviceAccount": "{name: installer}"}},
		{name: "a service account may not be removed", then: map[string]string{"spec.serviceAccount": ""}, refused: "serviceAccount may not be removed"},
		{name: "a service account may not change", then: map[string]string{"spec.serviceAccount.name": "other"}, refused: "name is immutable"},
		{name: "a bad service account", set: map[string]string{"spec.serviceAccount.name": "Installer"}, refused: "valid DNS1123 subdomain"},
		{name: "a service account with dots", set: map[string]string{"spec.serviceAccount.name": "a.b-c"}},
		{name: "no namespace", set: map[string]string{"spec.namespace": ""}, refused: "spec.namespace"},
		{name: "a bad namespace", set: map[string]string{"spec.namespace": "argo.cd"}, refused: "valid DNS1123 label"},
		{name: "a long namespace", set: map[string]string{"spec.namespace": strings.Repeat("a", 64)}, refused: "63"},
		{name: "the namespace may not change", then: map[string]string{"spec.namespace": "other"}, refused: "namespace is immutable"},
		{name: "no source", set: map[string]string{"spec.source": ""}, refused: "spec.source"},
		{name: "unknown source", set: map[string]string{"spec.source.sourceType": "Helm"}, refused: "Unsupported value"},
		{name: "no catalog", set: map[string]string{"spec.source.catalog": ""}, refused: "catalog is required when sourceType is Catalog"},
		{name: "no package", set: map[string]string{catalog + "packageName": ""}, refused: "packageName"},
		{name: "a bad package", set: map[string]string{catalog + "packageName": "Argo_CD"}, refused: "valid DNS1123 subdomain"},
		{name: "the package may not change", then: map[string]string{catalog + "packageName": "other"}, refused: "packageName is immutable"},
		{name: "channels", set: map[string]string{catalog + "channels": "[alpha, stable-1.0]"}},
		{name: "a bad channel", set: map[string]string{catalog + "channels": "[Alpha]"}, refused: "channels entries must be valid DNS1123 subdomains"},
		{name: "256 channels", set: map[string]string{catalog + "channels": list("c", 256)}},
		{name: "257 channels", set: map[string]string{catalog + "channels": list("c", 257)}, refused: "256"},
		{name: "selector", set: map[string]string{catalog + "selector": `{matchLabels: {a: b}, matchExpressions: [{key: c, operator: NotIn, values: [d]}]}`}},
		{name: "unknown operator", set: map[string]string{catalog + "selector": `{matchExpressions: [{key: c, operator: Like, values: [d]}]}`}, refused: "matchExpressions operators"},
		{name: "self-certified", set: map[string]string{catalog + "upgradeConstraintPolicy": "SelfCertified"}},
		{name: "unknown policy", set: map[string]string{catalog + "upgradeConstraintPolicy": "Force"}, refused: "Unsupported value"},
		{name: "empty install", set: map[string]string{"spec.install": "{}"}, refused: "at least one of [preflight, dependencies, rollback, accessRoles]"},
		{name: "dependencies alone", set: map[string]string{"spec.install": "{dependencies: {policy: Install}}"}},
		{name: "dependencies blocked", set: map[string]string{"spec.install": "{dependencies: {policy: Block}}"}},
		{name: "dependencies and preflight", set: map[string]string{"spec.install": "{dependencies: {policy: Install}, preflight: {crdUpgradeSafety: {enforcement: None}}}"}},
		{name: "empty dependencies", set: map[string]string{"spec.install": "{dependencies: {}}"}, refused: "policy"},
		{name: "rollback never", set: map[string]string{"spec.install": "{rollback: {policy: Never}}"}},
		{name: "rollback with a deadline", set: map[string]string{"spec.install": "{rollback: {policy: OnDeadline}}", "spec.progressDeadlineMinutes": "10"}},
		{name: "rollback without a deadline", set: map[string]string{"spec.install": "{rollback: {policy: OnDeadline}}"}, refused: "progressDeadlineMinutes is required"},
		{name: "empty rollback", set: map[string]string{"spec.install": "{rollback: {}}"}, refused: "policy"},
		{name: "unknown rollback policy", set: map[string]string{"spec.install": "{rollback: {policy: Always}}"}, refused: "Unsupported value"},
		{name: "access roles alone", set: map[string]string{"spec.install": "{accessRoles: Aggregated}"}},
		{name: "no access roles", set: map[string]string{"spec.install": "{accessRoles: None}"}},
		{name: "unknown access roles", set: map[string]string{"spec.install": "{accessRoles: All}"}, refused: "Unsupported value"},
		{name: "unknown dependency policy", set: map[string]string{"spec.install": "{dependencies: {policy: Ask}}"}, refused: "Unsupported value"},
		{name: "empty preflight", set: map[string]string{"spec.install": "{preflight: {}}"}, refused: "at least one of [crdUpgradeSafety]"},
		{name: "enforcement None", set: map[string]string{"spec.install": "{preflight: {crdUpgradeSafety: {enforcement: None}}}"}},
		{name: "unknown enforcement", set: map[string]string{"spec.install": "{preflight: {crdUpgradeSafety: {enforcement: Lax}}}"}, refused: "Unsupported value"},
		{name: "inline configuration", set: map[string]string{"spec.config": "{configType: Inline, inline: {watchNamespace: a, deploymentConfig: {nodeSelector: {a: b}}}}"}},
		{name: "no inline configuration", set: map[string]string{"spec.config": "{configType: Inline}"}, refused: "inline is required when configType is Inline"},
		{name: "empty inline configuration", set: map[string]string{"spec.config": "{configType: Inline, inline: {}}"}, refused: "at least 1 properties"},
		{name: "inline configuration that is not an object", set: map[string]string{"spec.config": "{configType: Inline, inline: [a]}"}, refused: "object"},
		{name: "unknown configuration", set: map[string]string{"spec.config": "{configType: Secret, inline: {a: b}}"}, refused: "Unsupported value"},
		{name: "a version of 65 characters", set: version(`"1.0.0-` + strings.Repeat("a", 59) + `"`), refused: "64"},
	}

	for _, minutes := range []struct{ value, refused string }{{"10", ""}, {"720", ""}, {"9", "greater than or equal to 10"}, {"721", "less than or equal to 720"}} {
		rules = append(rules, rule{
			name: "deadline of " + minutes.value, set: map[string]string{"spec.progressDeadlineMinutes": minutes.value}, refused: minutes.refused,
		})
	}

	for _, good := range []string{
		"1.14.0", "1.14.x", ">=1.16", ">1.15, <1.17", "<1.16", "9.x", "~1.11.0", "~1", "~1.x", "^0", "^0.0.3", "^1.2.x", ">=1.12.X", "<=2.x", "*",
		"=1.0.0", "!=1.2.3", "1.2 - 1.4.5", "<1.16 || >=2.0.0-rc.1", ">=1.11 <1.13", "v1.0.0", "1.0.0+build.3", "1.2.1-up.3",
	} {
		rules = append(rules, rule{name: "version " + good, set: version(fmt.Sprintf("%q", good))})
	}

	for _, bad := range []string{"latest", "1.2.3.4", ">", "1.0.0 OR 2.0.0", ">=1.0.0,,<2", "1.0.0;rm"} {
		rules = append(rules, rule{name: "version " + bad, set: version(fmt.Sprintf("%q", bad)), refused: "invalid version expression"})
	}

	check(t, baseExtension, rules)
}

const baseSet = `
apiVersion: olm.operatorframework.io/v1
kind: ClusterObjectSet
spec:
  lifecycleState: Active
  revision: 1
  collisionProtection: Prevent
  phases:
  - name: configuration
    objects:
    - object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}, data: {k: v}}`

func TestClusterObjectSetRules(t *testing.T) {
	const object = "{object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}}"
	const ref = "{ref: {name: a, namespace: b, key: c}}"
	phase := func(name, objects string) string { return fmt.Sprintf("{name: %s, objects: %s}", name, objects) }
	phases := func(phases ...string) map[string]string {
		return map[string]string{"spec.phases": "[" + strings.Join(phases, ", ") + "]"}
	}
	probe := func(selector, assertions string) map[string]string {
		return map[string]string{"spec.progressionProbes": fmt.Sprintf("[{selector: %s, assertions: %s}]", selector, assertions)}
	}
	const byKind = "{type: GroupKind, groupKind: {group: apps, kind: Deployment}}"
	const ready = "{type: ConditionEqual, conditionEqual: {type: Ready, status: \"True\"}}"
	check(t, baseSet, []rule{
		{name: "the base"},
		{name: "no lifecycle state", set: map[string]string{"spec.lifecycleState": ""}, refused: "lifecycleState"},
		{name: "unknown lifecycle state", set: map[string]string{"spec.lifecycleState": "Paused"}, refused: "Unsupported value"},
		{name: "it may be archived", then: map[string]string{"spec.lifecycleState": "Archived"}},
		{name: "it may not be un-archived", set: map[string]string{"spec.lifecycleState": "Archived"}, then: map[string]string{"spec.lifecycleState": "Active"}, refused: "cannot un-archive"},
		{name: "revision 0", set: map[string]string{"spec.revision": "0"}, refused: "greater than or equal to 1"},
		{name: "the revision may not change", then: map[string]string{"spec.revision": "2"}, refused: "revision is immutable"},
		{name: "unknown collision protection", set: map[string]string{"spec.collisionProtection": "Maybe"}, refused: "Unsupported value"},
		{name: "the collision protection may not change", then: map[string]string{"spec.collisionProtection": "None"}, refused: "collisionProtection is immutable"},
		{name: "the collision protection may not be removed", then: map[string]string{"spec.collisionProtection": ""}, refused: "collisionProtection is immutable"},
		{name: "deadline of 10", set: map[string]string{"spec.progressDeadlineMinutes": "10"}},
		{name: "deadline of 9", set: map[string]string{"spec.progressDeadlineMinutes": "9"}, refused: "greater than or equal to 10"},
		{name: "deadline of 721", set: map[string]string{"spec.progressDeadlineMinutes": "721"}, refused: "less than or equal to 720"},
		{name: "the deadline may change", then: map[string]string{"spec.progressDeadlineMinutes": "20"}},
		{name: "no phases", set: map[string]string{"spec.phases": ""}},
		{name: "phases may be set once", set: map[string]string{"spec.phases": "[]"}, then: phases(phase("a", "["+object+"]"))},
		{name: "phases may not change", then: phases(phase("configuration", "["+ref+"]")), refused: "phases is immutable"},
		{name: "phases may not be removed", then: map[string]string{"spec.phases": ""}, refused: "phases is immutable"},
		{name: "two phases of one name", set: phases(phase("a", "["+object+"]"), phase("a", "["+object+"]")), refused: "Duplicate value"},
		{name: "a bad phase name", set: phases(phase("A_b", "["+object+"]")), refused: "valid DNS1123 label"},
		{name: "a long phase name", set: phases(phase(strings.Repeat("a", 64), "["+object+"]")), refused: "63"},
		{name: "21 phases", set: phases(repeat(21, func(i int) string { return phase(fmt.Sprintf("p%d", i), "["+object+"]") })...), refused: "20"},
		{name: "50 objects", set: phases(phase("a", "["+strings.Join(repeat(50, func(int) string { return object }), ",")+"]"))},
		{name: "51 objects", set: phases(phase("a", "["+strings.Join(repeat(51, func(int) string { return object }), ",")+"]")), refused: "50"},
		{name: "an object in a Secret", set: phases(phase("a", "["+ref+"]"))},
		{name: "an object inline and in a Secret", set: phases(phase("a", "[{object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, ref: {name: a, key: b}}]")), refused: "exactly one of object and ref"},
		{name: "neither an object nor a reference", set: phases(phase("a", "[{collisionProtection: None}]")), refused: "exactly one of object and ref"},
		{name: "an object without a kind", set: phases(phase("a", "[{object: {apiVersion: v1, metadata: {name: a}}}]")), refused: "kind"},
		{name: "an object's collision protection", set: phases(phase("a", "[{ref: {name: a, key: b}, collisionProtection: IfNoController}]"))},
		{name: "a probe by kind", set: probe(byKind, "["+ready+"]")},
		{name: "a probe by label", set: probe("{type: Label, label: {matchLabels: {a: b}}}", "[{type: FieldsEqual, fieldsEqual: {fieldA: spec.a, fieldB: status.a}}, {type: FieldValue, fieldValue: {fieldPath: status.phase, value: Ready}}]")},
		{name: "a probe by kind and label", set: probe("{type: Label, label: {}, groupKind: {group: a, kind: B}}", "["+ready+"]"), refused: "groupKind is required when type is GroupKind"},
		{name: "a probe by kind without a kind", set: probe("{type: GroupKind}", "["+ready+"]"), refused: "groupKind is required when type is GroupKind"},
		{name: "a probe without assertions", set: probe(byKind, "[]"), refused: "at least 1"},
		{name: "21 assertions", set: probe(byKind, "["+strings.Join(repeat(21, func(int) string { return ready }), ",")+"]"), refused: "20"},
		{name: "an assertion of another type", set: probe(byKind, "[{type: FieldValue, conditionEqual: {type: Ready, status: \"True\"}}]"), refused: "conditionEqual is required when type is ConditionEqual"},
		{name: "an unknown status", set: probe(byKind, "[{type: ConditionEqual, conditionEqual: {type: Ready, status: Yes}}]"), refused: "spec.progressionProbes"},
		{name: "21 probes", set: map[string]string{"spec.progressionProbes": "[" + strings.Join(repeat(21, func(int) string {
			return fmt.Sprintf("{selector: %s, assertions: [%s]}", byKind, ready)
		}), ",") + "]"}, refused: "20"},
	})
}

// TestDefaults checks the defaults that the API server sets.
func TestDefaults(t *testing.T) {
	c := env.Client(t)
	for _, tc := range []struct{ base, path, want string }{
		{baseCatalog, "spec.availabilityMode", "Available"},
		{baseCatalog, "spec.priority", "0"},
		{baseExtension, "spec.source.catalog.upgradeConstraintPolicy", "CatalogProvided"},
	} {
		object := build(t, tc.base, nil)
		object.SetGenerateName("defaults-")
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}

		got, _, err := unstructured.NestedFieldNoCopy(object.Object, strings.Split(tc.path, ".")...)
		if err != nil || fmt.Sprint(got) != tc.want {
			t.Errorf("%s of a new %s: got %v (%v), want %s", tc.path, object.GetKind(), got, err, tc.want)
		}
	}
}

func check(t *testing.T, base string, rules []rule) {
	t.Helper()
	c := env.Client(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			object := build(t, base, r.set)
			object.SetGenerateName("rule-")
			err := c.Create(t.Context(), object)
			if err == nil && r.then != nil {
				change(t, object, r.then)
				err = c.Update(t.Context(), object)
			}

			expect(t, err, r.refused)
			if object.GetUID() != "" {
				if err := client.IgnoreNotFound(c.Delete(t.Context(), object)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func expect(t *testing.T, err error, refused string) {
	t.Helper()
	switch {
	case refused == "" && err != nil:
		t.Errorf("got error %v, want none", err)
	case refused != "" && err == nil:
		t.Errorf("got no error, want one that contains %q", refused)
	case refused != "" && !strings.Contains(err.Error(), refused):
		t.Errorf("got error %q, want one that contains %q", err, refused)
	}
}

func build(t *testing.T, base string, set map[string]string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(base), &object.Object); err != nil {
		t.Fatal(err)
	}
	change(t, object, set)
	return object
}

func change(t *testing.T, object *unstructured.Unstructured, set map[string]string) {
	t.Helper()
	for path, text := range set {
		fields := strings.Split(path, ".")
		if text == "" {
			unstructured.RemoveNestedField(object.Object, fields...)
			continue
		}

		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if err := unstructured.SetNestedField(object.Object, value, fields...); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

func repeat(n int, f func(int) string) []string {
	result := make([]string, n)
	for i := range result {
		result[i] = f(i)
	}
	return result
}

func list(prefix string, n int) string {
	return "[" + strings.Join(repeat(n, func(i int) string { return fmt.Sprintf("%s%d", prefix, i) }), ", ") + "]"
}

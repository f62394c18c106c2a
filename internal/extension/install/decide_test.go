package install

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/render"
)

func TestPhases(t *testing.T) {
	objects := []unstructured.Unstructured{
		newObject("apps/v1", "Deployment", "operator"),
		newObject("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "hook"),
		newObject("v1", "Service", "service"),
		newObject("rbac.authorization.k8s.io/v1", "RoleBinding", "binding"),
		newObject("rbac.authorization.k8s.io/v1", "ClusterRole", "role"),
		newObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "b.example.com"),
		newObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "a.example.com"),
		newObject("v1", "ConfigMap", "config"),
		newObject("v1", "ServiceAccount", "account"),
		newObject("policy/v1", "PodDisruptionBudget", "budget"),
		newObject("console.openshift.io/v1", "ConsoleQuickStart", "start"),
		newObject("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", "scaler"),
		newObject("example.com/v1", "Anything", "any"),
		newObject("v1", "PersistentVolumeClaim", "claim"),
		newObject("v1", "Namespace", "namespace"),
	}

	want := []string{
		"namespaces: Namespace/namespace",
		"policies: PodDisruptionBudget/budget",
		"identity: ServiceAccount/account",
		"configuration: ConfigMap/config",
		"storage: PersistentVolumeClaim/claim",
		"crds: CustomResourceDefinition/a.example.com CustomResourceDefinition/b.example.com",
		"roles: ClusterRole/role",
		"bindings: RoleBinding/binding",
		"infrastructure: Service/service",
		"deploy: Deployment/operator Anything/any",
		"scaling: VerticalPodAutoscaler/scaler",
		"publish: ConsoleQuickStart/start",
		"admission: ValidatingWebhookConfiguration/hook",
	}
	if diff := cmp.Diff(want, phaseNames(groupIntoPhases(objects))); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}

	slices.Reverse(objects)
	if diff := cmp.Diff(want, phaseNames(groupIntoPhases(objects))); diff != "" {
		t.Errorf("phases depend on the order of the objects (-want +got):\n%s", diff)
	}
}

func TestPhasesAreSplitAtTheLimitOfTheAPI(t *testing.T) {
	var objects []unstructured.Unstructured
	for i := range 120 {
		objects = append(objects, newObject("v1", "ConfigMap", fmt.Sprintf("config-%03d", i)))
	}

	got := map[string]int{}
	for _, phase := range groupIntoPhases(objects) {
		got[phase.Name] = len(phase.Objects)
	}

	want := map[string]int{"configuration": 50, "configuration-2": 50, "configuration-3": 20}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects in each phase (-want +got):\n%s", diff)
	}
}

func TestPack(t *testing.T) {
	small := groupIntoPhases([]unstructured.Unstructured{newObject("v1", "ConfigMap", "small")})
	same, secrets, err := packIntoSecrets(small, "ext", "ext-1", "system")
	if err != nil || len(secrets) != 0 || !cmp.Equal(small, same) {
		t.Errorf("a small revision was packed: %d secrets, %v", len(secrets), err)
	}

	large := groupIntoPhases([]unstructured.Unstructured{
		newSizedObject("a", 600<<10), newSizedObject("b", 600<<10), newObject("apps/v1", "Deployment", "operator"),
	})
	packed, secrets, err := packIntoSecrets(large, "ext", "ext-1", "system")
	if err != nil {
		t.Fatal(err)
	}

	for _, secret := range secrets {
		if secret.Type != olmv1.SecretTypeObjectData || !*secret.Immutable || secret.Namespace != "system" ||
			secret.Labels[olmv1.LabelRevisionName] != "ext-1" || !strings.HasPrefix(secret.Name, "ext-1-") {
			t.Errorf("secret %q does not have the documented metadata: %v", secret.Name, secret.ObjectMeta)
		}
	}

	for i, phase := range packed {
		for j, o := range phase.Objects {
			want := large[i].Objects[j].Object
			got := unpackObject(t, o.Ref, func(name string) map[string][]byte {
				for _, secret := range secrets {
					if secret.Name == name {
						return secret.Data
					}
				}
				return nil
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("phase %s, object %d after packing (-want +got):\n%.500s", phase.Name, j, diff)
			}
		}
	}

	again, _, err := packIntoSecrets(large, "ext", "ext-1", "system")
	if err != nil || !cmp.Equal(packed, again) {
		t.Errorf("packing twice has different results (error %v)", err)
	}
}

func TestRevisions(t *testing.T) {
	for _, tc := range []struct {
		name                       string
		sets                       []string // <number><A|S|X>: active, active and succeeded, archived
		newest, installed, archive string
		deleted                    string
		next                       int64
	}{
		{name: "none", next: 1},
		{name: "first in progress", sets: []string{"1A"}, newest: "1", next: 2},
		{name: "installed", sets: []string{"1S"}, newest: "1", installed: "1", next: 2},
		{name: "updating", sets: []string{"1S", "2A"}, newest: "2", installed: "1", next: 3},
		{name: "updated", sets: []string{"1S", "2S"}, newest: "2", installed: "2", archive: "1", next: 3},
		{name: "stuck, then changed", sets: []string{"1S", "2A", "3A"}, newest: "3", installed: "1", next: 4},
		{name: "stuck, then corrected", sets: []string{"1S", "2A", "3S"}, newest: "3", installed: "3", archive: "1 2", next: 4},
		{name: "history", sets: []string{"1X", "2X", "3X", "4X", "5X", "6X", "7X", "8S"}, newest: "8", installed: "8", deleted: "1 2", next: 9},
		{name: "only history", sets: []string{"1X"}, next: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var items []olmv1.ClusterObjectSet
			for _, s := range slices.Backward(tc.sets) {
				items = append(items, parseRevision(s))
			}

			revs := sortRevisions(items)
			got := []string{revisionNumber(revs.newest()), revisionNumber(revs.installed()), numbersOfNames(revs.listReplacedRevisions()), numbersOfNames(revs.listExpiredRevisions()), strconv.FormatInt(revs.nextRevisionNumber(), 10)}
			want := []string{tc.newest, tc.installed, tc.archive, tc.deleted, strconv.FormatInt(tc.next, 10)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("newest, installed, to archive, to delete, next (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProgressing(t *testing.T) {
	waiting := parseRevision("2A")
	waiting.Status.Conditions = []metav1.Condition{{
		Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonRollingOut, Message: "phase 2 of 3 waits",
	}}
	broken := parseRevision("1S")
	broken.Status.Conditions = append(broken.Status.Conditions, metav1.Condition{
		Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonRetrying, Message: "the account is gone",
	})
	for _, tc := range []struct {
		name string
		revs revisions
		err  error
		want string
	}{
		{"reached, and not kept", revisions{broken}, nil, "True Retrying the account is gone"},
		{"nothing yet", nil, nil, "True RollingOut the first revision is being created"},
		{"just made", revisions{parseRevision("1A")}, nil, "True RollingOut revision ext-1 is about to be rolled out"},
		{"rolling out", revisions{parseRevision("1S"), waiting}, nil, "True RollingOut phase 2 of 3 waits"},
		{"reached", revisions{parseRevision("1S")}, nil, "True Succeeded desired state reached"},
		{"a failed attempt", revisions{parseRevision("1S")}, errors.New("no bundles found"), "True Retrying no bundles found"},
		{"awaited", nil, reconcile.Wait(olmv1.ReasonRetrying, 0, errors.New("no namespace")), "True Retrying no namespace"},
		{"a user must act", revisions{parseRevision("1S")}, reconcile.Stop(olmv1.ReasonBlocked, errors.New("no CSV")), "False Blocked no CSV"},
		{"bad configuration", nil, fmt.Errorf("bundle %q: %w", "b", reconcile.Stop(olmv1.ReasonInvalidConfiguration, errors.New("unknown field"))), `False InvalidConfiguration bundle "b": unknown field`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newProgressingCondition(tc.revs, tc.err)
			if got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestInputsFollowWhatRenderingReads(t *testing.T) {
	base := func() *olmv1.ClusterExtension {
		return &olmv1.ClusterExtension{Spec: olmv1.ClusterExtensionSpec{Namespace: "a"}}
	}
	chosen := selection{Name: "b.v1", Version: "1.0.0", Image: "quay.io/b@sha256:0"}
	want := digestRevisionInputs(base(), chosen, render.IssuerBuiltIn, "v1")
	if got := digestRevisionInputs(base(), chosen, render.IssuerBuiltIn, "v1"); got != want {
		t.Errorf("got digests %s and %s of the same input", got, want)
	}

	changes := map[string]func(*olmv1.ClusterExtension, *selection){
		"namespace": func(e *olmv1.ClusterExtension, _ *selection) { e.Spec.Namespace = "b" },
		"account": func(e *olmv1.ClusterExtension, _ *selection) {
			e.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: "a"}
		},
		"watch namespace": func(e *olmv1.ClusterExtension, _ *selection) {
			e.Annotations = map[string]string{olmv1.AnnotationWatchNamespace: "c"}
		},
		"configuration": func(e *olmv1.ClusterExtension, _ *selection) {
			e.Spec.Config = &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ExtensionConfigTypeInline}
		},
		"access roles": func(e *olmv1.ClusterExtension, _ *selection) {
			e.Spec.Install = &olmv1.ClusterExtensionInstallConfig{AccessRoles: olmv1.AccessRolesAggregated}
		},
		"image": func(_ *olmv1.ClusterExtension, s *selection) { s.Image = "quay.io/b@sha256:1" },
	}

	for name, change := range changes {
		ext, other := base(), chosen
		change(ext, &other)
		if digestRevisionInputs(ext, other, render.IssuerBuiltIn, "v1") == want {
			t.Errorf("a change of the %s does not change the digest", name)
		}
	}

	if digestRevisionInputs(base(), chosen, render.IssuerBuiltIn, "v2") == want {
		t.Error("a change of the program does not change the digest")
	}
	if digestRevisionInputs(base(), chosen, render.IssuerCertManager, "v1") == want {
		t.Error("a change of the issuer of certificates does not change the digest")
	}
}

func TestPausesAreThoseOfTheQueue(t *testing.T) {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetryInterval, maxRetryInterval)
	for failures := range 40 {
		if got, want := retryIntervalAfter(limiter.NumRequeues("x")), limiter.When("x"); got != want {
			t.Errorf("after %d failures: got %s, want %s", failures, got, want)
		}
	}
}

func newObject(apiVersion, kind, name string) unstructured.Unstructured {
	o := unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	return o
}

// newSizedObject returns an object of about n bytes that barely compresses.
func newSizedObject(name string, n int) unstructured.Unstructured {
	o := newObject("v1", "ConfigMap", name)
	text := make([]byte, n)
	state := uint32(len(name)) + uint32(name[0])
	for i := range text {
		state = state*1664525 + 1013904223
		text[i] = 'A' + byte(state>>24)%57
	}

	o.Object["data"] = map[string]any{"k": string(text)}
	return o
}

func unpackObject(t *testing.T, ref *olmv1.ObjectSourceRef, data func(string) map[string][]byte) *unstructured.Unstructured {
	t.Helper()
	value := data(ref.Name)[ref.Key]
	if bytes.HasPrefix(value, []byte{0x1f, 0x8b}) {
		r, err := gzip.NewReader(bytes.NewReader(value))
		if err != nil {
			t.Fatal(err)
		}
		if value, err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}

	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(value); err != nil {
		t.Fatalf("%s/%s holds no object: %v", ref.Name, ref.Key, err)
	}

	return o
}

func phaseNames(phases []olmv1.ClusterObjectSetPhase) []string {
	var result []string
	for _, phase := range phases {
		line := []string{phase.Name + ":"}
		for _, o := range phase.Objects {
			line = append(line, o.Object.GetKind()+"/"+o.Object.GetName())
		}
		result = append(result, strings.Join(line, " "))
	}

	return result
}

func parseRevision(text string) olmv1.ClusterObjectSet {
	var number int64
	var state rune
	_, _ = fmt.Sscanf(text, "%d%c", &number, &state)
	result := olmv1.ClusterObjectSet{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ext-%d", number)}}
	result.Spec.Revision = number
	result.Spec.LifecycleState = olmv1.LifecycleStateActive
	switch state {
	case 'S':
		result.Status.Conditions = []metav1.Condition{{Type: olmv1.TypeSucceeded, Status: metav1.ConditionTrue}}
	case 'X':
		result.Spec.LifecycleState = olmv1.LifecycleStateArchived
	}

	return result
}

func revisionNumber(set *olmv1.ClusterObjectSet) string {
	if set == nil {
		return ""
	}
	return strconv.FormatInt(set.Spec.Revision, 10)
}

// numbersOfNames returns the numbers in the names of revisions.
func numbersOfNames(names []string) string {
	return strings.ReplaceAll(strings.Join(names, " "), "ext-", "")
}

package worker_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// everything has an object of each kind that has rules, and omits the fields that the API server
// defaults.
const everything = `
apiVersion: v1
kind: Namespace
metadata: {included, name: every}
---
apiVersion: v1
kind: ServiceAccount
metadata: {included, name: every, namespace: every}
---
apiVersion: v1
kind: ConfigMap
metadata: {included, name: every, namespace: every}
data: {a: b}
---
apiVersion: v1
kind: Secret
metadata: {included, name: every, namespace: every}
stringData: {a: b}
---
apiVersion: v1
kind: Service
metadata: {included, name: every, namespace: every}
spec:
  selector: {app: every}
  ports: [{name: a, port: 80}, {name: b, port: 81, targetPort: x}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {included, name: every, namespace: every}
spec:
  selector: {matchLabels: {app: every}}
  template:
    metadata: {labels: {app: every}}
    spec:
      serviceAccountName: every
      initContainers: [{name: i, image: example.com/i}]
      containers:
      - name: a
        image: example.com/a:v1
        command: [a]
        env: [{name: A, value: ""}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        ports: [{containerPort: 80}]
        livenessProbe: {httpGet: {port: 80}}
        readinessProbe: {grpc: {port: 80}}
        resources: {requests: {cpu: "0.1", memory: 1024Mi}, limits: {cpu: 1000m}}
        volumeMounts: [{name: c, mountPath: /c}]
      volumes:
      - {name: c, configMap: {name: every}}
      - {name: s, secret: {secretName: every}}
      - {name: e}
      - {name: h, hostPath: {path: /h}}
      - {name: p, projected: {sources: [{serviceAccountToken: {path: t}}]}}
      tolerations: [{key: a, operator: Exists}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {included, name: every, namespace: every}
spec:
  selector: {matchLabels: {app: ds}}
  template:
    metadata: {labels: {app: ds}}
    spec:
      containers: [{name: a, image: example.com/a:v1}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {included, name: every, namespace: every}
spec:
  serviceName: every
  selector: {matchLabels: {app: sts}}
  template:
    metadata: {labels: {app: sts}}
    spec:
      containers: [{name: a, image: example.com/a:v1}]
---
apiVersion: batch/v1
kind: Job
metadata: {included, name: every, namespace: every}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: example.com/a:v1}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {included, name: every, namespace: every}
spec:
  schedule: "@daily"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: a, image: example.com/a:v1}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {included, name: everies.example.com}
spec:
  group: example.com
  names: {kind: Every, plural: everies}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {a: {type: string, default: given}, b: {type: string}}}
---
apiVersion: example.com/v1
kind: Every
metadata: {included, name: every, namespace: every}
spec: {b: stated}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {included, name: every}
webhooks:
- name: a.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {name: every, namespace: every}}
  rules: [{apiGroups: [example.org], apiVersions: [v1], operations: [CREATE], resources: [things]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {included, name: every}
webhooks:
- name: a.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {name: every, namespace: every}}
  rules: [{apiGroups: [example.org], apiVersions: [v1], operations: [CREATE], resources: [things]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {included, name: every}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {included, name: every-aggregated}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {every: "true"}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {included, name: every}
roleRef: {kind: ClusterRole, name: every, apiGroup: rbac.authorization.k8s.io}
subjects: [{kind: ServiceAccount, name: every, namespace: every}, {kind: Group, name: everybody}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {included, name: every, namespace: every}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {included, name: every, namespace: every}
roleRef: {kind: Role, name: every, apiGroup: rbac.authorization.k8s.io}
subjects: [{kind: ServiceAccount, name: every}]
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {included, name: every}
value: 1000
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {included, name: every, namespace: every}
spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {included, name: every, namespace: every}
spec: {minAvailable: 1, selector: {matchLabels: {app: every}}}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {included, name: v1.every.example.com}
spec: {group: every.example.com, version: v1, groupPriorityMinimum: 1000, versionPriority: 10, service: {name: every, namespace: every}}
`

// Every object is written once, for all defaults that the API server adds. This holds for a Worker
// that continues, and for a new one with an empty cache.
func TestNothingIsWrittenTwice(t *testing.T) {
	c := newRecordingClient(t)
	name := uniqueName("every")
	payload := loadPayload(t, map[string]string{"0000_10_every_01_all": strings.NewReplacer("every", name, "example.com", name+".example.com").Replace(everything)})
	first := newWorker(c)
	first.Update(work(payload, release.Initializing))
	stop := startWorker(t, first)
	status := waitForStatus(t, first, "initialized", completed(1))
	if status.Done != status.Total || status.Total != len(payload.Manifests) || !status.Reconciling || status.Failure != nil {
		t.Errorf("got status %+v, want all manifests applied without a failure", status)
	}
	if writes := c.takeWrites(); len(writes) != len(payload.Manifests) {
		t.Errorf("got writes %q, want %d", writes, len(payload.Manifests))
	}

	c.expectNoWrites(t, first, 2)
	stop()
	before := resourceVersions(t, c, payload)

	for _, state := range []release.Mode{release.Reconciling, release.Updating} {
		again := newWorker(c)
		again.Update(work(payload, state))
		stop := startWorker(t, again)
		waitForStatus(t, again, "a pass", completed(1))
		if writes := c.takeWrites(); len(writes) > 0 {
			// Only objects that the API server stores in another form are sent again.
			slices.Sort(writes)
			if diff := cmp.Diff([]string{"update Deployment " + name, "update Secret " + name}, writes); diff != "" || state != release.Updating {
				t.Errorf("%s: got repeated writes %q, want none but those of other forms", state, writes)
			}
		}

		c.expectNoWrites(t, again, 1)
		stop()
		if diff := cmp.Diff(before, resourceVersions(t, c, payload)); diff != "" {
			t.Errorf("%s: resource versions (-before +after):\n%s", state, diff)
		}
	}
}

// The next pass removes a privilege that was added to an object of the release. Defaults of the
// API server do not cause writes.
func TestAddedPrivilegesAreRemoved(t *testing.T) {
	c := newRecordingClient(t)
	name := uniqueName("privileged")
	payload := loadPayload(t, map[string]string{"0000_10_a_01_all": strings.ReplaceAll(`
apiVersion: v1
kind: Namespace
metadata: {included, name: NAME}
---
apiVersion: v1
kind: ServiceAccount
metadata: {included, name: NAME, namespace: NAME}
---
apiVersion: apps/v1
kind: Deployment
metadata: {included, name: NAME, namespace: NAME}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      containers: [{name: a, image: example.com/a:v1, securityContext: {readOnlyRootFilesystem: true}}]
`, "NAME", name)})

	worker := newWorker(c)
	worker.Update(work(payload, release.Reconciling))
	startWorker(t, worker)
	waitForStatus(t, worker, "a pass", completed(1))
	want := map[string]any{}
	for _, kind := range []string{"v1/ServiceAccount", "apps/v1/Deployment"} {
		want[kind] = getContent(t, c, kind, name)
	}

	for kind, patch := range map[string]string{
		"v1/ServiceAccount": `{"automountServiceAccountToken": true}`,
		"apps/v1/Deployment": `{"spec": {"template": {"spec": {
			"hostNetwork": true, "hostPID": true, "hostIPC": true, "serviceAccountName": "admin", "serviceAccount": "admin", "automountServiceAccountToken": true,
			"securityContext": {"runAsUser": 0},
			"containers": [{"name": "a", "image": "example.com/a:v1", "securityContext": {"privileged": true}}]}}}}`,
	} {
		version, kindName := kind[:strings.LastIndex(kind, "/")], kind[strings.LastIndex(kind, "/")+1:]
		live := getObject(t, c, version, kindName, name, name)
		if err := c.Patch(t.Context(), live, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(stripMetadata(live), want[kind]) {
			t.Fatalf("%s: got no change by the patch, want one", kind)
		}
	}

	done := worker.Status().Completed
	waitForStatus(t, worker, "two more passes", completed(done+2))
	for kind, wanted := range want {
		if diff := cmp.Diff(wanted, getContent(t, c, kind, name)); diff != "" {
			t.Errorf("%s after the repair (-want +got):\n%s", kind, diff)
		}
	}

	c.takeWrites()
	c.expectNoWrites(t, worker, 1)
}

// getContent returns an object of the cluster without its metadata and status.
func getContent(t *testing.T, c client.Client, kind, name string) map[string]any {
	t.Helper()
	i := strings.LastIndex(kind, "/")
	return stripMetadata(getObject(t, c, kind[:i], kind[i+1:], name, name))
}

// stripMetadata removes the metadata and status of an object and returns the rest.
func stripMetadata(u *unstructured.Unstructured) map[string]any {
	delete(u.Object, "metadata")
	delete(u.Object, "status")
	return u.Object
}

// resourceVersions returns the resource version of each object of a payload.
func resourceVersions(t *testing.T, c client.Client, payload *release.Payload) map[string]string {
	t.Helper()
	result := map[string]string{}
	for _, m := range payload.Manifests {
		key := m.Key()
		result[key.String()] = getObject(t, c, m.Object.GetAPIVersion(), key.Kind, key.Namespace, key.Name).GetResourceVersion()
	}
	return result
}

package merge_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/cluster/worker/merge"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// Each case is a kind, a live object, a manifest, and the merged object. An empty result means
// that the live object does not change.
func TestMerge(t *testing.T) {
	for name, tc := range map[string]struct{ head, live, manifest, want string }{
		"labels and annotations are added, and none is removed": {
			`{apiVersion: v1, kind: ConfigMap`,
			`metadata: {name: a, labels: {a: "1", b: "2"}, annotations: {x: "1"}}`,
			`metadata: {name: a, labels: {b: "3", c: "4"}, annotations: {y: "2"}}`,
			`metadata: {name: a, labels: {a: "1", b: "3", c: "4"}, annotations: {x: "1", y: "2"}}`,
		},
		"finalizers are added": {
			`{apiVersion: v1, kind: ConfigMap`, `metadata: {name: a, finalizers: [a]}`, `metadata: {name: a, finalizers: [b, a]}`, `metadata: {name: a, finalizers: [a, b]}`,
		},
		"owners are merged by their UID": {
			`{apiVersion: v1, kind: ConfigMap`,
			`metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: A, name: a, uid: "1"}, {apiVersion: v1, kind: B, name: old, uid: "2"}]}`,
			`metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: B, name: new, uid: "2", controller: true}, {apiVersion: v1, kind: C, name: c, uid: "3"}]}`,
			`metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: A, name: a, uid: "1"}, {apiVersion: v1, kind: B, name: new, uid: "2", controller: true}, {apiVersion: v1, kind: C, name: c, uid: "3"}]}`,
		},
		"status is the cluster's": {
			`{apiVersion: apps/v1, kind: DaemonSet`, `metadata: {name: a}, spec: {selector: {}}, status: {a: 1}`, `metadata: {name: a}, spec: {selector: {}}, status: {b: 2}`, ``,
		},
		"ConfigMap: keys are merged": {
			`{apiVersion: v1, kind: ConfigMap`, `metadata: {name: a}, data: {a: "1", b: "2"}`, `metadata: {name: a}, data: {b: "3"}, binaryData: {c: AA==}`,
			`metadata: {name: a}, data: {a: "1", b: "3"}, binaryData: {c: AA==}`,
		},
		"Namespace: spec is the cluster's": {
			`{apiVersion: v1, kind: Namespace`, `metadata: {name: a}, spec: {finalizers: [kubernetes]}`, `metadata: {name: a}, spec: {finalizers: [other]}`, ``,
		},
		"ServiceAccount: secrets are the cluster's": {
			`{apiVersion: v1, kind: ServiceAccount`,
			`metadata: {name: a}, secrets: [{name: a}], imagePullSecrets: [{name: b}]`,
			`metadata: {name: a}, secrets: [{name: x}], imagePullSecrets: [{name: y}], automountServiceAccountToken: false`,
			`metadata: {name: a}, secrets: [{name: a}], imagePullSecrets: [{name: b}], automountServiceAccountToken: false`,
		},
		"Service: addresses stay, ports are those of the manifest": {
			`{apiVersion: v1, kind: Service`,
			`metadata: {name: a}, spec: {clusterIP: 10.0.0.1, type: NodePort, selector: {a: b, c: d}, ports: [{name: a, port: 1, nodePort: 30001, protocol: UDP, targetPort: 7}, {name: gone, port: 2}]}`,
			`metadata: {name: a}, spec: {selector: {a: b}, ports: [{name: a, port: 5}]}`,
			`metadata: {name: a}, spec: {clusterIP: 10.0.0.1, selector: {a: b}, ports: [{name: a, port: 5, nodePort: 30001}]}`,
		},
		"Deployment: fields of others are kept": {
			`{apiVersion: apps/v1, kind: Deployment`,
			`metadata: {name: a}, spec: {replicas: 3, paused: true, progressDeadlineSeconds: 600, template: {metadata: {annotations: {restarted: now}}, spec: {dnsPolicy: Default, nodeSelector: {mine: "1"}, affinity: {mine: {}}, tolerations: [{key: mine}], containers: [{name: a, image: v1, args: [mine], lifecycle: {preStop: {}}, startupProbe: {}, livenessProbe: {mine: 1}, env: [{name: mine}]}, {name: mine}], volumes: [{name: mine}]}}}`,
			`metadata: {name: a}, spec: {template: {metadata: {annotations: {b: c}}, spec: {nodeSelector: {b: "2"}, tolerations: [{key: b}, {key: b}], containers: [{name: a, image: v2, env: [{name: b}]}], initContainers: [{name: i}]}}}`,
			`metadata: {name: a}, spec: {progressDeadlineSeconds: 600, template: {metadata: {annotations: {restarted: now, b: c}}, spec: {dnsPolicy: Default, nodeSelector: {mine: "1", b: "2"}, affinity: {mine: {}}, tolerations: [{key: mine}, {key: b}], containers: [{name: a, image: v2, lifecycle: {preStop: {}}, startupProbe: {}, env: [{name: b}]}], initContainers: [{name: i}]}}}`,
		},
		"Deployment: affinity and lifecycle of the manifest win": {
			`{apiVersion: apps/v1, kind: Deployment`,
			`metadata: {name: a}, spec: {template: {spec: {affinity: {mine: {}}, containers: [{name: a, lifecycle: {preStop: {a: 1}}}]}}}`,
			`metadata: {name: a}, spec: {template: {spec: {affinity: {other: {}}, containers: [{name: a, lifecycle: {preStop: {a: 2}}}]}}}`,
			`metadata: {name: a}, spec: {template: {spec: {affinity: {other: {}}, containers: [{name: a, lifecycle: {preStop: {a: 2}}}]}}}`,
		},
		"Deployment: rules hold below what the manifest does not state": {
			`{apiVersion: apps/v1, kind: Deployment`, `metadata: {name: a}, spec: {paused: true, revisionHistoryLimit: 3, template: {spec: {volumes: [{name: a}]}}}`, `metadata: {name: a}`,
			`metadata: {name: a}, spec: {revisionHistoryLimit: 3, template: {spec: {}}}`,
		},
		"containers are in the order of the manifest": {
			`{apiVersion: apps/v1, kind: DaemonSet`,
			`metadata: {name: a}, spec: {template: {spec: {initContainers: [{name: a}, {name: b}], containers: []}}}`,
			`metadata: {name: a}, spec: {template: {spec: {initContainers: [{name: b}, {name: a}], containers: []}}}`,
			`metadata: {name: a}, spec: {template: {spec: {initContainers: [{name: b}, {name: a}], containers: []}}}`,
		},
		"null is ignored": {
			`{apiVersion: apps/v1, kind: DaemonSet`, `metadata: {name: a}, spec: {template: {metadata: {creationTimestamp: x}}}`, `metadata: {name: a}, spec: {template: {metadata: {creationTimestamp: null}}}`, ``,
		},
		"Deployment: privileges that the manifest does not set are removed": {
			`{apiVersion: apps/v1, kind: Deployment`,
			`metadata: {name: a}, spec: {template: {spec: {securityContext: {runAsUser: 0}, hostNetwork: true, hostPID: true, hostIPC: true, hostUsers: true, shareProcessNamespace: true, serviceAccountName: mine, serviceAccount: mine, automountServiceAccountToken: true, containers: [{name: a, securityContext: {privileged: true}, volumeDevices: [{name: mine}]}], initContainers: [{name: i, securityContext: {privileged: true}}]}}}`,
			`metadata: {name: a}, spec: {template: {spec: {containers: [{name: a}], initContainers: [{name: i}]}}}`,
			`metadata: {name: a}, spec: {template: {spec: {containers: [{name: a}], initContainers: [{name: i}]}}}`,
		},
		"DaemonSet: privileges are those of the manifest": {
			`{apiVersion: apps/v1, kind: DaemonSet`,
			`metadata: {name: a}, spec: {template: {spec: {securityContext: {runAsUser: 0, runAsNonRoot: false}, containers: [{name: a, securityContext: {privileged: true, capabilities: {add: [ALL]}}}]}}}`,
			`metadata: {name: a}, spec: {template: {spec: {securityContext: {runAsNonRoot: true}, automountServiceAccountToken: false, containers: [{name: a, securityContext: {readOnlyRootFilesystem: true}}]}}}`,
			`metadata: {name: a}, spec: {template: {spec: {securityContext: {runAsNonRoot: true}, automountServiceAccountToken: false, containers: [{name: a, securityContext: {readOnlyRootFilesystem: true}}]}}}`,
		},
		"ServiceAccount: a token is mounted as set in the manifest": {
			`{apiVersion: v1, kind: ServiceAccount`, `metadata: {name: a}, secrets: [{name: a}], automountServiceAccountToken: true`, `metadata: {name: a}`, `metadata: {name: a}, secrets: [{name: a}]`,
		},
		"CronJob: the template of the template": {
			`{apiVersion: batch/v1, kind: CronJob`,
			`metadata: {name: a}, spec: {schedule: a, suspend: true, concurrencyPolicy: Forbid, jobTemplate: {spec: {template: {spec: {containers: [{name: a, args: [x]}]}}}}}`,
			`metadata: {name: a}, spec: {schedule: b, jobTemplate: {spec: {template: {spec: {containers: [{name: a}]}}}}}`,
			`metadata: {name: a}, spec: {schedule: b, suspend: true, jobTemplate: {spec: {template: {spec: {containers: [{name: a}]}}}}}`,
		},
		"CRD: spec is the manifest's": {
			`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition`,
			`metadata: {name: a}, spec: {group: a, conversion: {webhook: {clientConfig: {caBundle: AAAA}}}}`, `metadata: {name: a}, spec: {group: b}`,
			`metadata: {name: a}, spec: {group: b}`,
		},
		"CRD: authorities that are not set are kept": {
			`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition`,
			`metadata: {name: a}, spec: {conversion: {webhook: {clientConfig: {caBundle: AAAA, url: old}}}}`, `metadata: {name: a}, spec: {conversion: {webhook: {clientConfig: {url: new}}}}`,
			`metadata: {name: a}, spec: {conversion: {webhook: {clientConfig: {caBundle: AAAA, url: new}}}}`,
		},
		"APIService: injected authorities are kept": {
			`{apiVersion: apiregistration.k8s.io/v1, kind: APIService`,
			`metadata: {name: a}, spec: {caBundle: AAAA, version: v1, mine: 1}`, `metadata: {name: a}, spec: {version: v2}`, `metadata: {name: a}, spec: {caBundle: AAAA, version: v2}`,
		},
		"PersistentVolumeClaim: the volume is the cluster's": {
			`{apiVersion: v1, kind: PersistentVolumeClaim`,
			`metadata: {name: a}, spec: {volumeName: v, resources: {requests: {storage: 1Gi}}}`, `metadata: {name: a}, spec: {resources: {requests: {storage: 2Gi}}}`,
			`metadata: {name: a}, spec: {volumeName: v, resources: {requests: {storage: 2Gi}}}`,
		},
		"webhooks: injected authorities are kept": {
			`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration`,
			`metadata: {name: a, annotations: {service.beta.openshift.io/inject-cabundle: "true"}}, webhooks: [{name: a, clientConfig: {caBundle: AAAA}}, {name: b}]`,
			`metadata: {name: a, annotations: {service.beta.openshift.io/inject-cabundle: "true"}}, webhooks: [{name: a, clientConfig: {caBundle: Cg==}}, {name: c, clientConfig: {caBundle: Cg==}}]`,
			`metadata: {name: a, annotations: {service.beta.openshift.io/inject-cabundle: "true"}}, webhooks: [{name: a, clientConfig: {caBundle: AAAA}}, {name: c, clientConfig: {caBundle: Cg==}}]`,
		},
		"webhooks: authorities of the manifest win": {
			`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration`,
			`metadata: {name: a}, webhooks: [{name: a, clientConfig: {caBundle: AAAA}}]`, `metadata: {name: a}, webhooks: [{name: a, clientConfig: {caBundle: BBBB}}]`,
			`metadata: {name: a}, webhooks: [{name: a, clientConfig: {caBundle: BBBB}}]`,
		},
		"ClusterRole: rules are exact": {
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole`, `metadata: {name: a}, rules: [{verbs: [a]}, {verbs: [b]}]`, `metadata: {name: a}, rules: [{verbs: [a]}]`, `metadata: {name: a}, rules: [{verbs: [a]}]`,
		},
		"ClusterRole: aggregated rules are the cluster's": {
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole`,
			`metadata: {name: a}, aggregationRule: {a: b}, rules: [{verbs: [a]}]`, `metadata: {name: a}, aggregationRule: {a: b}, rules: []`, ``,
		},
		"RoleBinding: subjects and role are exact": {
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding`,
			`metadata: {name: a}, roleRef: {name: a, kind: Role}, subjects: [{name: a}, {name: b}]`, `metadata: {name: a}, roleRef: {name: a, kind: Role}, subjects: [{name: a}]`,
			`metadata: {name: a}, roleRef: {name: a, kind: Role}, subjects: [{name: a}]`,
		},
		"ImageStream: other tags stay": {
			`{apiVersion: image.openshift.io/v1, kind: ImageStream`,
			`metadata: {name: a}, spec: {tags: [{name: a, x: 1}, {name: b, x: 2}]}`, `metadata: {name: a}, spec: {tags: [{name: b, x: 3}, {name: c}]}`,
			`metadata: {name: a}, spec: {tags: [{name: b, x: 3}, {name: c}, {name: a, x: 1}]}`,
		},
		"ImageStream: of a tag that the manifest names, nothing of others stays but its generation and annotations": {
			`{apiVersion: image.openshift.io/v1, kind: ImageStream`,
			`metadata: {name: a}, spec: {tags: [{name: a, annotations: {mine: "1"}, generation: 2, from: {kind: DockerImage, name: x, namespace: mine}, reference: true, importPolicy: {insecure: true}, referencePolicy: {type: Local}}, {name: b, importPolicy: {insecure: true}}]}`,
			`metadata: {name: a}, spec: {tags: [{name: a, from: {kind: DockerImage, name: x}}]}`,
			`metadata: {name: a}, spec: {tags: [{name: a, annotations: {mine: "1"}, generation: 2, from: {kind: DockerImage, name: x}}, {name: b, importPolicy: {insecure: true}}]}`,
		},
		"OperatorGroup: target namespaces are exact": {
			`{apiVersion: operators.coreos.com/v1, kind: OperatorGroup`,
			`metadata: {name: a}, spec: {targetNamespaces: [a, b], upgradeStrategy: Default}`, `metadata: {name: a}, spec: {selector: {a: b}}`,
			`metadata: {name: a}, spec: {upgradeStrategy: Default, selector: {a: b}}`,
		},
		"other kinds: a part that differs is replaced as a whole, with the metadata": {
			`{apiVersion: example.com/v1, kind: Other`,
			`metadata: {name: a, uid: u, labels: {a: "1"}, annotations: {x: "1"}}, spec: {a: 1, b: 2}, more: {a: 1}, mine: 1, status: {a: 1}`,
			`metadata: {name: a, labels: {b: "2"}}, spec: {a: 1}, more: {a: 1}, status: {b: 2}`,
			`metadata: {name: a, uid: u, labels: {b: "2"}}, spec: {a: 1}, more: {a: 1}, mine: 1, status: {a: 1}`,
		},
		"other kinds: metadata alone is no difference": {
			`{apiVersion: example.com/v1, kind: Other`, `metadata: {name: a, labels: {a: "1"}}, spec: {a: 1}`, `metadata: {name: a, labels: {b: "2"}}, spec: {a: 1}`, ``,
		},
	} {
		t.Run(name, func(t *testing.T) {
			live, manifest := builder.FromYAML(tc.head+", "+tc.live+"}"), builder.FromYAML(tc.head+", "+tc.manifest+"}")
			liveBefore, manifestBefore := live.DeepCopy(), manifest.DeepCopy()
			want := live
			if tc.want != "" {
				want = builder.FromYAML(tc.head + ", " + tc.want + "}")
			}
			merged, differs := merge.Merge(live, manifest)
			if diff := cmp.Diff(want.Object, merged.Object); diff != "" {
				t.Errorf("merged, -want +got:\n%s", diff)
			}
			if differs != (tc.want != "") {
				t.Errorf("got differs %v, want %v", differs, tc.want != "")
			}
			if diff := cmp.Diff(liveBefore, live) + cmp.Diff(manifestBefore, manifest); diff != "" {
				t.Errorf("arguments (-before +after):\n%s", diff)
			}
			if again, differs := merge.Merge(merged, manifest); differs {
				t.Errorf("merging the result again (-first +second):\n%s", cmp.Diff(merged.Object, again.Object))
			}
		})
	}
}

func TestIsCovered(t *testing.T) {
	live := builder.FromYAML(`{kind: A, a: 1, b: {c: 2, d: 3}, e: [{f: 1, g: 2}, h]}`)
	for text, want := range map[string]bool{
		`{kind: A}`: true, `{kind: A, a: 1, b: {c: 2}, e: [{f: 1}, h]}`: true, `{kind: A, a: 2}`: false, `{kind: A, b: {x: 1}}`: false, `{kind: A, b: 1}`: false,
		`{kind: A, e: [{f: 1}]}`: false, `{kind: A, e: [{f: 2}, h]}`: false, `{kind: A, e: {}}`: false, `{kind: A, x: {}}`: false,
	} {
		if got := merge.IsCovered(builder.FromYAML(text).Object, live.Object); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {selector: {}}}`:       "spec.selector must not be set: the server sets the selector of a Job",
		`{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {}}`:                   "",
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {selector: {}}}`: "",
	} {
		if got := merge.InvalidReason(builder.FromYAML(text)); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// FuzzMerge checks that merging never fails, does not change its arguments, and is idempotent.
func FuzzMerge(f *testing.F) {
	f.Add(uint8(0), `{"spec":{"ports":[{"name":"a"}]}}`, `{"spec":{"ports":[{"name":"b"}]}}`)
	f.Add(uint8(1), `{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}`, `{"spec":{"template":{"spec":{"tolerations":[{},{}]}}}}`)
	f.Add(uint8(1), `{"spec":{}}`, `{"spec":{"template":{"spec":{"tolerations":[{},{}],"containers":[{"name":"a","env":[{"name":"b"},{"name":"b"}]}]}}}}`)
	f.Add(uint8(1), `{"spec":{"template":{"spec":{"containers":[{"name":"a"},{"name":"a"}]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"a","env":[{}]}]}}}}`)
	f.Add(uint8(2), `{"webhooks":[{"clientConfig":{"caBundle":"a"}}]}`, `{"webhooks":[{"clientConfig":{}}]}`)
	kinds := []string{"v1/Service", "apps/v1/Deployment", "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration", "example.com/v1/Other", "v1/ConfigMap", "image.openshift.io/v1/ImageStream"}
	f.Fuzz(func(t *testing.T, kind uint8, liveText, manifestText string) {
		if len(liveText)+len(manifestText) > 1<<10 {
			t.Skip("the input exceeds the size that this test covers")
		}

		live, manifest := parseFuzzedObject(kinds[int(kind)%len(kinds)], liveText), parseFuzzedObject(kinds[int(kind)%len(kinds)], manifestText)
		if live == nil || manifest == nil {
			t.Skip("no objects")
		}

		before := live.DeepCopy()
		merged, _ := merge.Merge(live, manifest)
		if diff := cmp.Diff(before.Object, live.Object); diff != "" {
			t.Errorf("live object (-before +after):\n%s", diff)
		}
		if again, differs := merge.Merge(merged, manifest); differs {
			t.Errorf("merging the result again (-first +second):\n%s", cmp.Diff(merged.Object, again.Object))
		}
	})
}

// parseFuzzedObject returns an object of a kind. Its metadata is valid, like that of all objects that come from a
// server or a payload.
func parseFuzzedObject(kind, text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if u.UnmarshalJSON([]byte(text)) != nil && len(u.Object) == 0 {
		var content map[string]any
		if yaml.Unmarshal([]byte(text), &content) != nil || content == nil {
			return nil
		}
		u.Object = content
	}

	at := len(kind) - 1
	for kind[at] != '/' {
		at--
	}

	u.SetAPIVersion(kind[:at])
	u.SetKind(kind[at+1:])
	u.Object["metadata"] = map[string]any{"name": "a"}

	return u
}

package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

func TestApplyDeploymentConfig(t *testing.T) {
	for _, c := range []struct{ name, before, config, want string }{
		{
			name:   "nothing",
			before: "nodeSelector: {a: b}\ncontainers: [{name: c, resources: {limits: {cpu: 1}}}]",
			config: "selector: {matchLabels: {x: y}}",
			want:   "nodeSelector: {a: b}\ncontainers: [{name: c, resources: {limits: {cpu: 1}}}]",
		}, {
			name:   "env replaces in place and appends",
			before: "initContainers: [{name: i}]\ncontainers: [{name: c, env: [{name: A, value: '1'}, {name: B, value: '1'}]}, {name: d}]",
			config: "env: [{name: C, value: '2'}, {name: A, value: '2'}]",
			want: "initContainers: [{name: i}]\ncontainers: [{name: c, env: [{name: A, value: '2'}, {name: B, value: '1'}, {name: C, value: '2'}]}," +
				" {name: d, env: [{name: C, value: '2'}, {name: A, value: '2'}]}]",
		}, {
			name:   "equal sources and tolerations are not repeated",
			before: "tolerations: [{key: a, tolerationSeconds: 5}]\ncontainers: [{name: c, envFrom: [{secretRef: {name: s}}]}]",
			config: "tolerations: [{key: a, tolerationSeconds: 5}, {key: a}]\nenvFrom: [{secretRef: {name: s}}, {configMapRef: {name: s}}]",
			want:   "tolerations: [{key: a, tolerationSeconds: 5}, {key: a}]\ncontainers: [{name: c, envFrom: [{secretRef: {name: s}}, {configMapRef: {name: s}}]}]",
		}, {
			name:   "volumes and mounts replace those with the same name",
			before: "volumes: [{name: v, emptyDir: {}}]\ncontainers: [{name: c, volumeMounts: [{name: v, mountPath: /a}]}]",
			config: "volumes: [{name: v, secret: {secretName: s}}, {name: w, emptyDir: {}}]\nvolumeMounts: [{name: w, mountPath: /w}, {name: v, mountPath: /b}]",
			want: "volumes: [{name: v, secret: {secretName: s}}, {name: w, emptyDir: {}}]\n" +
				"containers: [{name: c, volumeMounts: [{name: v, mountPath: /b}, {name: w, mountPath: /w}]}]",
		}, {
			name:   "node selector and resources replace",
			before: "nodeSelector: {a: b}\ncontainers: [{name: c, resources: {limits: {cpu: 1}}}]",
			config: "nodeSelector: {c: d}\nresources: {requests: {memory: 1Gi}}",
			want:   "nodeSelector: {c: d}\ncontainers: [{name: c, resources: {requests: {memory: 1Gi}}}]",
		}, {
			name:   "an empty node selector removes",
			before: "nodeSelector: {a: b}",
			config: "nodeSelector: {}",
			want:   "nodeSelector: {}",
		}, {
			name:   "each kind of affinity replaces its own kind",
			before: "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}, podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}",
			config: "affinity: {podAffinity: {}, podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: b}]}}",
			want:   "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}, podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: b}]}}",
		}, {
			name:   "an empty affinity removes",
			before: "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}",
			config: "affinity: {}",
			want:   "{}",
		}, {
			name:   "an affinity without terms is removed",
			before: "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}",
			config: "affinity: {podAntiAffinity: {}}",
			want:   "{}",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var deployment appsv1.Deployment
			var config, untouched v1alpha1.SubscriptionConfig
			var want corev1.PodSpec
			for text, into := range map[string]any{c.before: &deployment.Spec.Template.Spec, c.want: &want} {
				if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}

			if c.before == c.want {
				deployment.Spec.Template.Spec = *want.DeepCopy()
			}

			for _, into := range []any{&config, &untouched} {
				if err := yaml.UnmarshalStrict([]byte(c.config), into); err != nil {
					t.Fatal(err)
				}
			}

			ApplyDeploymentConfig(&deployment, &config)
			if diff := cmp.Diff(want, deployment.Spec.Template.Spec); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(untouched, config); diff != "" {
				t.Errorf("the configuration changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestApplyDeploymentConfigAnnotations(t *testing.T) {
	var deployment appsv1.Deployment
	deployment.Spec.Template.Annotations = map[string]string{"a": "own"}
	ApplyDeploymentConfig(&deployment, &v1alpha1.SubscriptionConfig{Annotations: map[string]string{"a": "config", "b": "config"}})
	if diff := cmp.Diff(map[string]string{"a": "config", "b": "config"}, deployment.Annotations); diff != "" {
		t.Errorf("deployment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "own", "b": "config"}, deployment.Spec.Template.Annotations); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

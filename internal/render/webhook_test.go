package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

func TestServiceNames(t *testing.T) {
	long := strings.Repeat("d", 70)
	for _, c := range []struct{ deployment, service, builtIn, certManager string }{
		{"foo", "foo-service", "foo-service-serving", "foo-service-cert"},
		{"foo.v1.2", "foo-v1-2-service", "foo-v1-2-service-serving", "foo-v1-2-service-cert"},
		{long[:55], long[:55] + "-service", long[:55] + "-serving", long[:55] + "-se-cert"},
		{long[:56], long[:55] + "-service", long[:55] + "-serving", long[:55] + "-se-cert"},
		{long, long[:55] + "-service", long[:55] + "-serving", long[:55] + "-se-cert"},
	} {
		service := ServiceName(c.deployment)
		builtIn, certManager := IssuerBuiltIn.CertificateName(c.deployment), IssuerCertManager.CertificateName(c.deployment)
		if service != c.service || builtIn != c.builtIn || certManager != c.certManager {
			t.Errorf("%s: got %s, %s and %s, want %s, %s and %s", c.deployment, service, builtIn, certManager, c.service, c.builtIn, c.certManager)
		}
		if problems := validation.IsDNS1123Label(service); len(problems) > 0 {
			t.Errorf("Service %s: %v", service, problems)
		}
	}
}

func TestWebhooksOfOneNamespace(t *testing.T) {
	b := testBundle(t, "hooks")
	b.CSV.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeSingleNamespace, Supported: true}}
	b.CSV.Spec.WebhookDefinitions = b.CSV.Spec.WebhookDefinitions[:2]
	objects, err := Render(b, Options{InstallNamespace: "ns", WatchNamespace: "watched"})
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]any{"matchExpressions": []any{map[string]any{
		"key": "kubernetes.io/metadata.name", "operator": "In", "values": []any{"watched"},
	}}}
	seen := 0
	for _, object := range objects {
		webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, webhook := range webhooks {
			seen++
			if diff := cmp.Diff(want, webhook.(map[string]any)["namespaceSelector"]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", object.GetName(), diff)
			}
		}
	}

	if seen != 2 {
		t.Errorf("got %d webhooks, want 2", seen)
	}
}

// TestConfigurationOfVolumes checks that a configured volume with the name of the certificate's volume
// replaces it.
func TestConfigurationOfVolumes(t *testing.T) {
	own := corev1.Volume{Name: "webhook-cert", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "own"}}}
	objects, err := Render(testBundle(t, "hooks"), Options{InstallNamespace: "ns", DeploymentConfig: &v1alpha1.SubscriptionConfig{Volumes: []corev1.Volume{own}}})
	if err != nil {
		t.Fatal(err)
	}

	for _, object := range objects {
		if object.GetName() != "hooks.webhook" {
			continue
		}

		volumes, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "volumes")
		for _, volume := range volumes {
			if name, _, _ := unstructured.NestedString(volume.(map[string]any), "secret", "secretName"); name == "own" {
				return
			}
		}

		t.Errorf("got the volumes %v, want one of the Secret own", volumes)
		return
	}

	t.Error("the Deployment is missing")
}

func TestPodLabels(t *testing.T) {
	b := testBundle(t, "hooks")
	spec := b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec
	if diff := cmp.Diff(map[string]string{"app": "hooks"}, podLabels(spec)); diff != "" {
		t.Errorf("pod labels (-want +got):\n%s", diff)
	}

	spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}
	if diff := cmp.Diff(map[string]string{"app": "hooks", "tier": "webhook"}, podLabels(spec)); diff != "" {
		t.Errorf("pod labels without matchLabels (-want +got):\n%s", diff)
	}
}

func TestWebhooksRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*bundle.Bundle, *v1alpha1.WebhookDescription)
		want   string
	}{
		{
			name:   "a name of two parts",
			change: func(_ *bundle.Bundle, w *v1alpha1.WebhookDescription) { w.GenerateName = "example.com" },
			want:   `invalid webhook name "example.com": an admission webhook is named by a domain of at least three parts, such as v.example.com`,
		}, {
			name: "two names with the same normalized form",
			change: func(b *bundle.Bundle, w *v1alpha1.WebhookDescription) {
				again := *w
				again.GenerateName += "-"
				b.CSV.Spec.WebhookDefinitions = append(b.CSV.Spec.WebhookDefinitions, again)
			},
			want: `duplicate webhooks of type ValidatingAdmissionWebhook: "v.hooks.example.com"`,
		}, {
			name: "two deployments that share a Service",
			change: func(b *bundle.Bundle, w *v1alpha1.WebhookDescription) {
				deployments := &b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
				twin := (*deployments)[0]
				twin.Name = "hooks-webhook"
				*deployments = append(*deployments, twin)
				w.DeploymentName = twin.Name
			},
			want: `the webhooks of the deployments "hooks-webhook", "hooks.webhook" would share the Service "hooks-webhook-service": one must be renamed`,
		}, {
			name:   "a port out of range",
			change: func(_ *bundle.Bundle, w *v1alpha1.WebhookDescription) { w.ContainerPort = 65536 },
			want:   `webhook "v.hooks.example.com" has an invalid port: must be between 1 and 65535, inclusive`,
		}, {
			name:   "a target port out of range",
			change: func(_ *bundle.Bundle, w *v1alpha1.WebhookDescription) { w.TargetPort = ptr.To(intstr.FromInt32(-1)) },
			want:   `webhook "v.hooks.example.com" has an invalid port: must be between 1 and 65535, inclusive`,
		}, {
			name:   "a target port without a name",
			change: func(_ *bundle.Bundle, w *v1alpha1.WebhookDescription) { w.TargetPort = ptr.To(intstr.FromString("")) },
			want:   `webhook "v.hooks.example.com" has an invalid port: must contain`,
		}, {
			name:   "a port with two targets",
			change: func(_ *bundle.Bundle, w *v1alpha1.WebhookDescription) { w.ContainerPort = 0 },
			want:   `webhook "m.hooks.example.com-" leads the port 443 of deployment "hooks.webhook" to 443, another one to webhook`,
		}, {
			name:   "only unknown review versions",
			change: func(_ *bundle.Bundle, w *v1alpha1.WebhookDescription) { w.AdmissionReviewVersions = []string{"v2"} },
			want:   `webhook "v.hooks.example.com" understands the review versions [v2], none of which is v1 or v1beta1`,
		}, {
			name:   "a relative path",
			change: func(_ *bundle.Bundle, w *v1alpha1.WebhookDescription) { w.WebhookPath = ptr.To("validate") },
			want:   `webhook "v.hooks.example.com" has the path "validate", which does not begin with a slash`,
		}, {
			name: "side effects",
			change: func(_ *bundle.Bundle, w *v1alpha1.WebhookDescription) {
				w.SideEffects = ptr.To(admissionregistrationv1.SideEffectClassSome)
			},
			want: `webhook "v.hooks.example.com" has the side effects "Some", only None and NoneOnDryRun are allowed`,
		}, {
			name:   "unknown side effects",
			change: func(_ *bundle.Bundle, w *v1alpha1.WebhookDescription) { w.SideEffects = nil },
			want:   `webhook "v.hooks.example.com" has the side effects "", only None and NoneOnDryRun are allowed`,
		}, {
			name:   "a long timeout",
			change: func(_ *bundle.Bundle, w *v1alpha1.WebhookDescription) { w.TimeoutSeconds = ptr.To[int32](31) },
			want:   `webhook "v.hooks.example.com" has a timeout of 31 seconds, which must be from 1 to 30`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := testBundle(t, "hooks")
			c.change(b, &b.CSV.Spec.WebhookDefinitions[0])
			err := Validate(b)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

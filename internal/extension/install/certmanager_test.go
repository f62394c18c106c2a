package install_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/extension/install"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/extension/serving"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

const (
	builtInSecret     = "hello-operator-service-serving"
	certManagerSecret = "hello-operator-service-cert"
)

// TestCertManagerComes updates to a bundle with webhooks of every kind, whose
// certificate is issued by the built-in issuer, and then has cert-manager appear.
//
// cert-manager itself cannot run here. Its API is simulated by CRDs of the same names, and
// its work by a stand-in that issues Secrets and injects the authorities.
func TestCertManagerComes(t *testing.T) {
	c := env.Client(t, clientgoscheme.AddToScheme, olmv1.AddToScheme, apiextensionsv1.AddToScheme)
	w := newFixture(t, func(controller *install.Controller) {
		controller.CertManager = true
		controller.Preflight = preflight.Checks{preflight.NewCRDChecker(c).Check}
	})
	runRolloutController(t, c)
	runControllers(t, c, func(mgr ctrl.Manager) error { return serving.Setup(mgr, serving.Options{}) })
	w.createNamespace("hooks")
	w.runDeployments(c, "hooks")
	catalog := w.createCatalog("hooks", "1.1.0")
	w.CreateForTest(newExtension("hooks", "hooks"))
	w.installAndWait("hooks", "1.1.0")

	w.setCatalogVersions(catalog, "1.1.0", "1.2.0")
	w.installAndWait("hooks", "1.2.0")
	first := w.waitForTrust(c, builtInSecret)

	for _, crd := range []client.Object{certManagerCRD("Certificate", "certificates"), certManagerCRD("Issuer", "issuers")} {
		w.CreateForTest(crd)
	}

	set := w.waitForRevision("hooks-3")
	if diff := cmp.Diff([]string{"Certificate/" + certManagerSecret, "Issuer/" + certManagerSecret + "-selfsigned-issuer", "Service/hello-operator", "Service/hello-operator-service"}, objectsInPhase(set, "infrastructure")); diff != "" {
		t.Errorf("objects for the webhooks (-want +got):\n%s", diff)
	}

	w.Eventually("the new revision waits for cert-manager", func() error {
		if got := w.waitForRevision("hooks-3").Status.Conditions; len(got) == 0 {
			return errors.New("it says nothing yet")
		}
		return c.Get(t.Context(), client.ObjectKey{Namespace: "hooks", Name: certManagerSecret}, certificateObject())
	})
	// Until there is another certificate the pods keep theirs, and webhooks continue to trust it.
	if diff := cmp.Diff(first, w.waitForTrust(c, builtInSecret)); diff != "" {
		t.Errorf("the trusted authorities changed before there was a new certificate:\n%s", diff)
	}
	if got := w.mountedSecretName(c); got != builtInSecret {
		t.Errorf("got the mounted Secret %s before there is a new certificate", got)
	}

	w.repeatInBackground(func(ctx context.Context) error { return actAsCertManager(ctx, c, "hooks") })
	w.Eventually("the Deployment mounts the new certificate", func() error {
		if got := w.mountedSecretName(c); got != certManagerSecret {
			return fmt.Errorf("got the mounted Secret %s", got)
		}
		return nil
	})

	w.installAndWait("hooks", "1.2.0")
	if second := w.waitForTrust(c, certManagerSecret); bytes.Equal(first, second) {
		t.Error("the webhooks trust the old certificate")
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "hooks", Name: builtInSecret}, &corev1.Secret{}); err != nil {
		t.Errorf("a pod that still had the old certificate lost it: %v", err)
	}

	w.delete(w.getExtension("hooks"))
	w.Eventually("all objects are deleted", func() error {
		for _, object := range []client.Object{
			&olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "hooks"}},
			&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: greetings}},
			certificateObject(),
		} {
			err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
			if err == nil {
				return fmt.Errorf("%T %s exists", object, object.GetName())
			}
			if client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return nil
	})
}

// TestCertManagerTurnedOff does not use an installed cert-manager.
func TestCertManagerTurnedOff(t *testing.T) {
	w := newFixture(t)
	w.createNamespace("turned-off")
	w.createCatalog("turned-off", "1.2.0")
	crd := certManagerCRD("Certificate", "certificates")
	w.Eventually("the CRD is created, after that of another test was deleted", func() error { return w.Create(t.Context(), crd) })
	t.Cleanup(func() {
		if err := w.Delete(context.Background(), crd); err != nil {
			t.Error(err)
		}
	})
	w.CreateForTest(newExtension("turned-off", "turned-off"))
	if diff := cmp.Diff([]string{"Service/hello-operator", "Service/hello-operator-service"}, objectsInPhase(w.waitForRevision("turned-off-1"), "infrastructure")); diff != "" {
		t.Errorf("objects for the webhooks (-want +got):\n%s", diff)
	}
}

func certificateObject() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("cert-manager.io/v1")
	object.SetKind("Certificate")
	object.SetNamespace("hooks")
	object.SetName(certManagerSecret)
	return object
}

// certManagerCRD returns a CRD with the names of one of cert-manager's. Its schema accepts every
// object.
func certManagerCRD(kind, plural string) *apiextensionsv1.CustomResourceDefinition {
	crd := builder.OpenCRD("cert-manager.io", plural, kind)
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	return crd
}

// objectsInPhase lists the objects of a phase.
func objectsInPhase(set *olmv1.ClusterObjectSet, name string) []string {
	var result []string
	for _, p := range set.Spec.Phases {
		for _, object := range p.Objects {
			if p.Name == name && object.Object != nil {
				result = append(result, object.Object.GetKind()+"/"+object.Object.GetName())
			}
		}
	}

	slices.Sort(result)
	return result
}

func (w *fixture) installAndWait(name, version string) {
	w.T.Helper()
	w.Eventually(name+" has "+version+" installed", func() error {
		ext := w.getExtension(name)
		if ext.Status.Install == nil || ext.Status.Install.Bundle.Version != version || len(ext.Status.ActiveRevisions) != 1 {
			return fmt.Errorf("got the status %+v", ext.Status)
		}
		return nil
	})
}

// waitForTrust waits until all webhooks trust the authorities in a Secret, and returns those.
func (w *fixture) waitForTrust(c client.Client, secretName string) []byte {
	w.T.Helper()
	var secret corev1.Secret
	w.Eventually("every webhook trusts "+secretName, func() error {
		if err := c.Get(w.T.Context(), client.ObjectKey{Namespace: "hooks", Name: secretName}, &secret); err != nil {
			return err
		}
		for _, consumer := range listConsumers(w.T.Context(), c) {
			for _, got := range caBundlesOf(consumer) {
				if got != base64.StdEncoding.EncodeToString(secret.Data["ca.crt"]) {
					return fmt.Errorf("%s %s trusts other authorities", consumer.GetKind(), consumer.GetName())
				}
			}
		}
		return nil
	})

	return secret.Data["ca.crt"]
}

// mountedSecretName returns the Secret in the Deployment's webhook-cert volume.
func (w *fixture) mountedSecretName(c client.Client) string {
	w.T.Helper()
	var deployment appsv1.Deployment
	w.Must(c.Get(w.T.Context(), client.ObjectKey{Namespace: "hooks", Name: "hello-operator"}, &deployment))

	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.Name == "webhook-cert" {
			return volume.Secret.SecretName
		}
	}

	return ""
}

// listConsumers returns the objects of hello-operator with webhooks.
func listConsumers(ctx context.Context, c client.Client) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, kind := range []schema.GroupVersionKind{
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	} {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		if err := c.List(ctx, &list, client.MatchingLabels{olmv1.LabelOwnerName: "hooks"}); err == nil {
			for i := range list.Items {
				found = append(found, &list.Items[i])
			}
		}
	}

	return found
}

// caBundlesOf returns the caBundle of each webhook of an object.
func caBundlesOf(consumer *unstructured.Unstructured) []string {
	var result []string
	forEachClientConfig(consumer, func(config map[string]any) {
		value, _ := config["caBundle"].(string)
		result = append(result, value)
	})
	return result
}

func forEachClientConfig(consumer *unstructured.Unstructured, do func(map[string]any)) {
	if spec, ok := consumer.Object["spec"].(map[string]any); ok {
		if config, ok, _ := unstructured.NestedFieldNoCopy(spec, "conversion", "webhook", "clientConfig"); ok {
			do(config.(map[string]any))
		}
	}

	webhooks, _ := consumer.Object["webhooks"].([]any)
	for _, webhook := range webhooks {
		do(webhook.(map[string]any)["clientConfig"].(map[string]any))
	}
}

// repeatInBackground repeats the work of another component of a cluster until the test ends. It
// retries after errors.
func (w *fixture) repeatInBackground(play func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.T.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = play(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()

	w.T.Cleanup(func() { cancel(); <-done })
}

// runDeployments makes the Deployments of namespaces available until the test ends. The client must know their kind.
func (w *fixture) runDeployments(c client.Client, namespaces ...string) {
	nodes := &env.Fixture{Client: c, T: w.T}
	nodes.RunOnChanges(func(ctx context.Context) error {
		var errs []error
		for _, namespace := range namespaces {
			errs = append(errs, nodes.MakeDeploymentsAvailable(ctx, client.InNamespace(namespace)))
		}
		return errors.Join(errs...)
	}, deploymentKind)
}

var deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// actAsCertManager issues the Secrets of Certificates and updates their status. It injects the
// caBundle as cert-manager does: by an update that takes over the field.
func actAsCertManager(ctx context.Context, c client.Client, namespace string) error {
	var failed []error
	for _, kind := range []string{"Issuer", "Certificate"} {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: kind})
		failed = append(failed, c.List(ctx, &list, client.InNamespace(namespace)))
		for i := range list.Items {
			failed = append(failed, issueSecret(ctx, c, &list.Items[i]))
		}
	}

	for _, consumer := range listConsumers(ctx, c) {
		from := consumer.GetAnnotations()["cert-manager.io/inject-ca-from"]
		var secret corev1.Secret
		if from != namespace+"/"+certManagerSecret || c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: certManagerSecret}, &secret) != nil {
			continue
		}

		bundle := base64.StdEncoding.EncodeToString(secret.Data["ca.crt"])
		if !slices.ContainsFunc(caBundlesOf(consumer), func(has string) bool { return has != bundle }) {
			continue
		}

		forEachClientConfig(consumer, func(config map[string]any) { config["caBundle"] = bundle })
		failed = append(failed, c.Update(ctx, consumer, client.FieldOwner("cainjector")))
	}

	return errors.Join(failed...)
}

func issueSecret(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	if object.GetKind() == "Certificate" {
		pair, err := certificate.NewAuthority("stand-in", time.Hour, time.Now())
		if err != nil {
			return err
		}

		key, err := pair.KeyPEM()
		if err != nil {
			return err
		}

		name, _, _ := unstructured.NestedString(object.Object, "spec", "secretName")
		err = c.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: name},
			Type:       corev1.SecretTypeTLS,
			Data:       map[string][]byte{"tls.crt": pair.CertificatePEM(), "tls.key": key, "ca.crt": pair.CertificatePEM()},
		})
		if client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}

	if object.Object["status"] != nil {
		return nil
	}

	object.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "True", "observedGeneration": object.GetGeneration(),
	}}}
	return c.Status().Update(ctx, object)
}

package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

const (
	serviceName = "hooks-webhook-service"
	secretName  = "hooks-webhook-service-serving"
	installer   = "hooks-installer"
	webhooks    = 3
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// fixture holds an API server with the issuer, and an extension that a test installs.
type fixture struct {
	*env.Fixture
	clock     *clocktesting.FakePassiveClock
	namespace string
	engine    *apply.Engine
	owner     apply.Owner
	objects   []unstructured.Unstructured
}

// newFixture starts the issuer and renders the extension. It does not install it.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{Fixture: env.NewFixture(t, clientgoscheme.AddToScheme, olmv1.AddToScheme), clock: clocktesting.NewFakePassiveClock(time.Now())}
	mgr, _ := s.StartManager(env.Manager{
		Roles: filepath.Join("config", "rbac", "operator-controller", "role.yaml"),
		Setup: func(mgr ctrl.Manager) error {
			return Setup(mgr, Options{Clock: s.clock, SystemNamespace: "olmv1-system"})
		},
	})
	s.namespace = s.NewNamespace("serving-")
	dynamicClient, err := dynamic.NewForConfig(env.Start(t))
	if err != nil {
		t.Fatal(err)
	}

	s.engine = apply.New(dynamicClient, mgr.GetRESTMapper(), nil)
	s.owner = apply.Owner{
		Labels:   map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: "hooks"},
		Revision: 1,
	}
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	b, err := bundle.Load(os.DirFS(filepath.Join(root, "internal", "render", "testdata", "bundles", "hooks")))
	if err != nil {
		t.Fatal(err)
	}

	rendered, err := render.Render(b, render.Options{InstallNamespace: s.namespace})
	if err != nil {
		t.Fatal(err)
	}

	s.objects = withAPIGroup(t, rendered, s.namespace+".example.com")
	s.owner.Reference = s.createRevision()
	s.grantInstaller()
	t.Cleanup(s.uninstall)

	return s
}

// createRevision creates a revision that contains the objects and names the account of the
// fixture. It returns the owner reference.
func (s *fixture) createRevision() metav1.OwnerReference {
	s.T.Helper()
	set := &olmv1.ClusterObjectSet{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "hooks-",
		Annotations:  map[string]string{olmv1.AnnotationServiceAccountNamespace: s.namespace, olmv1.AnnotationServiceAccountName: installer},
	}}
	set.Spec.LifecycleState, set.Spec.Revision, set.Spec.CollisionProtection = olmv1.LifecycleStateActive, 1, olmv1.CollisionProtectionPrevent
	phase := olmv1.ClusterObjectSetPhase{Name: "all"}
	for i := range s.objects {
		phase.Objects = append(phase.Objects, olmv1.ClusterObjectSetObject{Object: s.objects[i].DeepCopy()})
	}

	set.Spec.Phases = []olmv1.ClusterObjectSetPhase{phase}
	s.CreateForTest(set)
	return metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterObjectSetKind, Name: set.Name, UID: set.UID}
}

// grantInstaller creates the account of the fixture with exactly the rights that it needs to
// manage the objects.
func (s *fixture) grantInstaller() {
	s.T.Helper()
	grants, err := rbac.Least(rbac.Required(s.objects, rbac.Options{Resource: rbac.BundleResource}))
	s.Must(err)

	account := rbac.Installer{Extension: s.namespace, Namespace: s.namespace, ServiceAccount: installer}
	for _, object := range account.Objects(grants) {
		s.CreateAll(object)
	}
}

// install applies the objects as a rollout does.
func (s *fixture) install() {
	s.T.Helper()
	phase := apply.Phase{Name: "all"}
	for i := range s.objects {
		phase.Objects = append(phase.Objects, apply.Object{Manifest: &s.objects[i]})
	}

	s.Eventually("the objects are applied", func() error {
		err := s.engine.Apply(s.T.Context(), &apply.Revision{Owner: s.owner, Phases: []apply.Phase{phase}, Ungated: true}).Err()
		if !reconcile.IsStale(err) { // The controller may write an object at the same time.
			s.Must(err)
		}
		return err
	})
}

// withAPIGroup returns the objects in another API group than hooks.example.com, and with other
// names, so that tests do not affect each other. An API server may take minutes to delete a CRD.
func withAPIGroup(t *testing.T, objects []unstructured.Unstructured, group string) []unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}

	var result []unstructured.Unstructured
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("hooks.example.com"), []byte(group)), &result); err != nil {
		t.Fatal(err)
	}

	return result
}

func (s *fixture) uninstall() {
	for i := range s.objects {
		if err := s.Delete(context.Background(), s.objects[i].DeepCopy()); client.IgnoreNotFound(err) != nil {
			s.T.Error(err)
		}
	}
}

// advanceClock sets the clock, and enqueues the Secret as its resync would.
func (s *fixture) advanceClock(until time.Time) {
	s.T.Helper()
	s.clock.SetTime(until)
	env.EditObject[client.Object](s.Fixture, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: serviceName}}, func(object client.Object) {
		object.SetAnnotations(map[string]string{render.AnnotationServingCertificate: secretName, "now": until.String()})
	})
}

func (s *fixture) getSecret() (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, s.Get(context.Background(), client.ObjectKey{Namespace: s.namespace, Name: secretName}, secret)
}

// listConsumers reads the objects with a caBundle.
func (s *fixture) listConsumers() []*unstructured.Unstructured {
	s.T.Helper()
	var found []*unstructured.Unstructured
	for i := range s.objects {
		if s.objects[i].GetAnnotations()[render.AnnotationCAFrom] != "" {
			object := s.objects[i].DeepCopy()
			s.Must(s.Get(s.T.Context(), client.ObjectKeyFromObject(object), object))
			found = append(found, object)
		}
	}

	if len(found) != webhooks {
		s.T.Fatalf("got %d objects with webhooks, want %d", len(found), webhooks)
	}

	return found
}

// waitUntilTrusted waits until the Secret meets the condition and every webhook has its
// authorities. It returns the Secret, and the caBundle.
func (s *fixture) waitUntilTrusted(what string, check func(*corev1.Secret) error) (*corev1.Secret, []byte) {
	s.T.Helper()
	var secret *corev1.Secret
	s.Eventually(what, func() error {
		var err error
		if secret, err = s.getSecret(); err != nil {
			return err
		}
		if err := check(secret); err != nil {
			return err
		}

		for _, consumer := range s.listConsumers() {
			for _, has := range trustedBundles(consumer) {
				if !bytes.Equal(has, secret.Data[keyAuthorities]) {
					return fmt.Errorf("%s %s trusts other authorities (%d bytes)", consumer.GetKind(), consumer.GetName(), len(has))
				}
			}
		}

		return nil
	})

	return secret, secret.Data[keyAuthorities]
}

func anyCertificate(*corev1.Secret) error { return nil }

// checkWebhookAnswers returns an error unless an API server that trusts a bundle accepts a webhook
// that serves with a Secret's certificate. It sends a request.
func (s *fixture) checkWebhookAnswers(secret *corev1.Secret, caBundle []byte) error {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}

	webhook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "allowed") }))
	webhook.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	webhook.Config.ErrorLog = stdlog.New(io.Discard, "", 0) // some tests expect failed connections
	webhook.StartTLS()
	defer webhook.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(caBundle)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, Time: s.clock.Now},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, webhook.Listener.Addr().String())
		},
	}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("https://" + serviceName + "." + s.namespace + ".svc/validate")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && string(body) != "allowed" {
		err = fmt.Errorf("got the response %q of the webhook", body)
	}

	return err
}

func managedFieldsOf(object metav1.Object, manager string) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(object.GetManagedFields()), func(e metav1.ManagedFieldsEntry) bool { return e.Manager != manager })
}

package csv_test

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/serving"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// serveAPI simulates the pods of an operator that serves an aggregated API, with the certificate of
// their Secret. It serves discovery of one group.
func (c *fixture) serveAPI(listener net.Listener, deployment, group string) {
	c.T.Helper()
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			list := metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: group + "/v1",
				APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing", Namespaced: true, Verbs: metav1.Verbs{"get"}}},
			}
			if !strings.HasPrefix(q.URL.Path, "/apis/"+group) {
				w.WriteHeader(http.StatusNotFound)
			}
			_ = json.NewEncoder(w).Encode(list) // the API server retries
		}),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			secret := &corev1.Secret{}
			key := client.ObjectKey{Namespace: c.namespace, Name: csvinfo.SecretName(deployment)}
			if err := c.Get(c.T.Context(), key, secret); err != nil {
				return nil, err
			}

			pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
			return &pair, err
		}},
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(listener, "", "") // it ends with the test
	}()
	c.T.Cleanup(func() { _ = server.Close(); <-done })
}

// pointServiceToLocalhost points a Service to this machine.
func (c *fixture) pointServiceToLocalhost(name string) {
	c.T.Helper()
	c.eventually("Service "+name+" leads to this machine", func() bool {
		s := &corev1.Service{}
		if c.Get(c.T.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, s) != nil {
			return false
		}

		before := s.DeepCopy()
		s.Spec.Type, s.Spec.ExternalName, s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ServiceTypeExternalName, "localhost", "", nil
		return c.Patch(c.T.Context(), s, client.MergeFrom(before)) == nil
	})
}

// An operator that serves an API gets certificates and rights, and its API is registered. A lost
// certificate is recreated. All of it is deleted with the operator.
func TestAPIService(t *testing.T) {
	c := newFixture(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	c.Must(err)
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	c.createGroup()
	c.createServiceAccount()
	const group = "things.example.com"
	c.serveAPI(listener, "things", group)
	c.createSubscription("things.v1.0.0", &v1alpha1.SubscriptionConfig{Annotations: map[string]string{"example.com/team": "storage"}})
	c.CreateAll(c.newCSV("things.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{
			Name: "things", Group: group, Version: "v1", Kind: "Thing", DeploymentName: "things", ContainerPort: port,
		}}
	}))
	c.waitForDeployment("things")
	c.markDeploymentAvailable("things")
	csv := c.waitForPhase("things.v1.0.0", v1alpha1.CSVPhaseInstalling, v1alpha1.CSVReasonInstallWaiting)
	c.pointServiceToLocalhost("things-service")
	csv = c.waitUntilSucceeded(csv.Name, "things")
	if csv.Status.CertsLastUpdated == nil || csv.Status.CertsRotateAt == nil {
		t.Errorf("got the times %v and %v of the certificates", csv.Status.CertsLastUpdated, csv.Status.CertsRotateAt)
	}

	secret := &corev1.Secret{}
	c.Must(c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "things-service-cert"}, secret))
	d := c.waitForDeployment("things")
	api := &apiregistrationv1.APIService{}
	c.Must(c.Get(t.Context(), client.ObjectKey{Name: "v1." + group}, api))
	hash := serving.CAHash(secret.Data[serving.KeyCA])
	if got := []string{d.Spec.Template.Annotations[csvinfo.AnnotationCAHash], secret.Annotations[csvinfo.AnnotationCAHash], serving.CAHash(api.Spec.CABundle)}; !cmp.Equal(got, []string{hash, hash, hash}) {
		t.Errorf("got the hashes %v of the authority, want %s", got, hash)
	}
	if api.Spec.GroupPriorityMinimum != 2000 || api.Spec.VersionPriority != 15 || !csvinfo.HasLabels(api.Labels, csvinfo.OwnerLabels(c.namespace, csv.Name)) {
		t.Errorf("got the APIService %+v with the labels %v", api.Spec, api.Labels)
	}

	c.Must(c.Delete(t.Context(), secret))
	c.eventually("the certificate is made anew", func() bool {
		anew := &corev1.Secret{}
		if c.Get(t.Context(), client.ObjectKeyFromObject(secret), anew) != nil || c.Get(t.Context(), client.ObjectKeyFromObject(api), api) != nil {
			return false
		}
		return anew.UID != secret.UID && serving.CAHash(api.Spec.CABundle) == serving.CAHash(anew.Data[serving.KeyCA])
	})

	c.waitUntilSucceeded(csv.Name, "things")
	if csv = c.get(csv.Name); !cmp.Equal(slicesOf(conditionHistory(csv), "NeedsCertRotation", "APIServiceResourceIssue"), true) {
		t.Errorf("got no rotation in %v", conditionHistory(csv))
	}

	// It is in another namespace, and only its labels name its owner.
	reader := &rbacv1.RoleBinding{}
	c.Must(c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "things-service-auth-reader"}, reader))
	c.Must(c.Delete(t.Context(), reader))
	c.eventually("the binding is made anew", func() bool {
		anew := &rbacv1.RoleBinding{}
		return c.Get(t.Context(), client.ObjectKeyFromObject(reader), anew) == nil && anew.UID != reader.UID
	})
	c.waitUntilSucceeded(csv.Name, "things")
	former := api.DeepCopy()
	c.Must(c.Delete(t.Context(), api))
	c.eventually("the API is registered anew, with the annotations of the Subscription", func() bool {
		return c.Get(t.Context(), client.ObjectKeyFromObject(former), api) == nil && api.UID != former.UID && api.Annotations["example.com/team"] == "storage"
	})
	csv = c.waitUntilSucceeded(csv.Name, "things")

	c.Must(c.Delete(t.Context(), csv))
	c.waitUntilGone(csv)
	c.waitUntilGone(api)
	c.waitUntilGone(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "things-service-system:auth-delegator"}})
	c.waitUntilGone(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "things-service-auth-reader"}})
}

// slicesOf reports whether an entry of a list ends in one of the words.
func slicesOf(list []string, words ...string) bool {
	for _, entry := range list {
		for _, word := range words {
			if strings.HasSuffix(entry, "/"+word) {
				return true
			}
		}
	}

	return false
}

// An APIService of another owner is not adopted.
func TestAPIServiceOfAnother(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	api := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.taken.example.com"}, Spec: apiregistrationv1.APIServiceSpec{
		Group: "taken.example.com", Version: "v1", GroupPriorityMinimum: 1, VersionPriority: 1, InsecureSkipTLSVerify: true,
		Service: &apiregistrationv1.ServiceReference{Namespace: c.namespace, Name: "mine", Port: ptr.To[int32](443)},
	}}
	c.CreateForTest(api)
	c.CreateAll(c.newCSV("taken.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{Name: "things", Group: "taken.example.com", Version: "v1", Kind: "Thing", DeploymentName: "taken"}}
	}))
	csv := c.waitForPhase("taken.v1.0.0", v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonOwnerConflict)
	if want := "unable to adopt APIService"; csv.Status.Message != want {
		t.Errorf("message %q, want %q", csv.Status.Message, want)
	}

	c.Must(c.Delete(t.Context(), api))
	c.waitForPhase("taken.v1.0.0", v1alpha1.CSVPhaseInstalling, v1alpha1.CSVReasonInstallWaiting)
}

// The webhooks of an operator are installed when it has succeeded, recreated when they are deleted, and
// deleted with it.
func TestWebhooks(t *testing.T) {
	c := newFixture(t)
	c.createGroup(func(g *operatorsv1.OperatorGroup) { g.Spec.TargetNamespaces = nil })
	c.createServiceAccount()
	crd := builder.CRD("webhooks.example.com", "hooks", "Hook")
	c.CreateAll(c.newCSV("hooks.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
		for i := range csv.Spec.InstallModes {
			csv.Spec.InstallModes[i].Supported = csv.Spec.InstallModes[i].Type == v1alpha1.InstallModeTypeAllNamespaces
		}
		csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: crd.Name, Version: "v1", Kind: "Hook"}}
		csv.Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{
			{
				GenerateName: "check.hooks.example.com", Type: v1alpha1.ValidatingAdmissionWebhook, DeploymentName: "hooks", ContainerPort: 9443,
				SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}, WebhookPath: ptr.To("/check"),
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"webhooks.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"hooks"}},
				}},
			},
			{
				GenerateName: "convert.hooks.example.com", Type: v1alpha1.ConversionWebhook, DeploymentName: "hooks", ContainerPort: 9443,
				SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}, ConversionCRDs: []string{crd.Name},
			},
		}
	}))
	csv := c.waitForPhase("hooks.v1.0.0", v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet)
	want := []v1alpha1.RequirementStatus{{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: crd.Name, Status: v1alpha1.RequirementNotPresent, Message: "CRD is not present",
	}}
	if diff := cmp.Diff(want, csv.Status.RequirementStatus); diff != "" {
		t.Errorf("requirements (-want +got):\n%s", diff)
	}
	c.CreateForTest(crd)
	csv = c.waitUntilSucceeded(csv.Name, "hooks")
	secret := &corev1.Secret{}
	c.Must(c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "hooks-service-cert"}, secret))
	configurations := func() []admissionregistrationv1.ValidatingWebhookConfiguration {
		var list admissionregistrationv1.ValidatingWebhookConfigurationList
		c.Must(c.List(t.Context(), &list, client.MatchingLabels(csvinfo.OwnerLabels(c.namespace, csv.Name))))
		return list.Items
	}
	there := configurations()
	if len(there) != 1 || !cmp.Equal(there[0].Webhooks[0].ClientConfig.CABundle, secret.Data[serving.KeyCA]) || there[0].Webhooks[0].ClientConfig.Service.Name != "hooks-service" {
		t.Fatalf("configurations %+v", there)
	}
	c.Must(c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	if crd.Spec.Conversion.Strategy != apiextensionsv1.WebhookConverter || !cmp.Equal(crd.Spec.Conversion.Webhook.ClientConfig.CABundle, secret.Data[serving.KeyCA]) {
		t.Errorf("conversion %+v", crd.Spec.Conversion)
	}
	// A Deployment that serves only webhooks cannot delegate authentication.
	err := c.Get(t.Context(), client.ObjectKey{Name: "hooks-service-system:auth-delegator"}, &rbacv1.ClusterRoleBinding{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("got the binding to system:auth-delegator, want none: %v", err)
	}

	c.Must(c.Delete(t.Context(), &there[0]))
	c.eventually("the webhook is made anew", func() bool {
		now := configurations()
		return len(now) == 1 && now[0].UID != there[0].UID
	})
	c.waitUntilSucceeded(csv.Name, "hooks")

	c.Must(c.Delete(t.Context(), csv))
	c.waitUntilGone(csv)
	if left := configurations(); len(left) > 0 {
		t.Errorf("got the configurations %v, want none", left)
	}
	c.Must(c.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	if crd.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		t.Errorf("got the conversion %+v after the deletion", crd.Spec.Conversion)
	}
}

package csv_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/serving"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/strategy"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// formerInstallation is an operator with an aggregated API that an OLM Classic without labels has installed.
type formerInstallation struct {
	*fixture
	csv *v1alpha1.ClusterServiceVersion
	// group is the API group. Its pods serve it at port.
	group string
	port  int32
	// service and secret are the names of the serving objects.
	service, secret string
	// issuedAt is when the certificate was issued.
	issuedAt time.Time
	// certificate is the content of the Secret.
	certificate map[string][]byte
	// objects are the objects of the operator, except its APIService.
	objects []client.Object
}

// newFormerInstallation creates a namespace, an OperatorGroup and a ClusterServiceVersion with the status of a success.
func newFormerInstallation(t *testing.T, listener net.Listener) *formerInstallation {
	t.Helper()
	f := &formerInstallation{fixture: &fixture{Fixture: env.NewFixture(t, kinds...)}, port: int32(listener.Addr().(*net.TCPAddr).Port), issuedAt: time.Now()}
	f.namespace = f.NewNamespace("former-")
	f.group = f.namespace + ".example.com"
	group := f.createGroup(func(g *operatorsv1.OperatorGroup) {
		g.Annotations = map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotation: "Thing.v1." + f.group}
	})
	updated := metav1.Now()
	group.Status = operatorsv1.OperatorGroupStatus{Namespaces: []string{f.namespace}, LastUpdated: &updated}
	f.Must(f.Status().Update(t.Context(), group))
	f.createServiceAccount()
	f.csv = f.newCSV("things.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Finalizers = []string{csvinfo.Finalizer}
		csv.Annotations = map[string]string{
			csvinfo.AnnotationOperatorGroup: group.Name, csvinfo.AnnotationOperatorNamespace: f.namespace, csvinfo.AnnotationTargetNamespaces: f.namespace,
		}
		csv.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{
			Name: "things", Group: f.group, Version: "v1", Kind: "Thing", DeploymentName: "things", ContainerPort: f.port,
		}}
	})
	f.CreateAll(f.csv)

	now := metav1.NewTime(time.Now().Truncate(time.Second))
	f.csv.Status = v1alpha1.ClusterServiceVersionStatus{
		Phase: v1alpha1.CSVPhaseSucceeded, Reason: v1alpha1.CSVReasonInstallSuccessful, Message: "install strategy completed with no errors",
		LastUpdateTime: &now, LastTransitionTime: &now, CertsLastUpdated: &now, CertsRotateAt: ptr.To(metav1.NewTime(now.Add(serving.Validity - serving.RotateBefore))),
	}
	f.Must(f.Status().Update(t.Context(), f.csv))

	return f
}

// createObjects creates the objects of the operator without the label olm.managed. The namespaced ones have the given
// labels, and the Deployment is available.
func (f *formerInstallation) createObjects(labels map[string]string) {
	f.T.Helper()
	f.issueCertificate()
	ownerLabels := csvinfo.OwnerLabels(f.namespace, f.csv.Name)
	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: f.secret, Labels: labels, OwnerReferences: []metav1.OwnerReference{csvinfo.OwnerReference(f.csv)}}
	secret := &corev1.Secret{ObjectMeta: *meta.DeepCopy(), Type: corev1.SecretTypeTLS, Data: f.certificate}
	secret.Annotations = map[string]string{csvinfo.AnnotationCAHash: serving.CAHash(f.certificate[serving.KeyCA])}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Name: "443", Port: f.port}},
	}}
	service.Name = f.service

	deployments, err := strategy.Deployments(f.csv, strategy.Inputs{CAHashes: map[string]string{"things": serving.CAHash(f.certificate[serving.KeyCA])}})
	f.Must(err)
	delete(deployments[0].Labels, csvinfo.LabelManaged)

	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.namespace, Name: "operator"}}
	reference := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	f.objects = []client.Object{
		&deployments[0], service, secret,
		&rbacv1.Role{ObjectMeta: *meta.DeepCopy(), Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{f.secret}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: *meta.DeepCopy(), Subjects: subjects, RoleRef: reference("Role", f.secret)},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: f.service + "-system:auth-delegator", Labels: ownerLabels},
			Subjects:   subjects, RoleRef: reference("ClusterRole", "system:auth-delegator"),
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: f.service + "-auth-reader", Labels: ownerLabels},
			Subjects:   subjects, RoleRef: reference("Role", "extension-apiserver-authentication-reader"),
		},
	}
	f.CreateAll(f.objects...)
	f.markDeploymentAvailable("things")
	f.CreateAll(&apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1." + f.group, Labels: ownerLabels},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: f.group, Version: "v1", CABundle: f.certificate[serving.KeyCA], GroupPriorityMinimum: 2000, VersionPriority: 15,
			Service: &apiregistrationv1.ServiceReference{Namespace: f.namespace, Name: f.service, Port: ptr.To(f.port)},
		},
	})
}

func (f *formerInstallation) issueCertificate() {
	f.T.Helper()
	authority, err := certificate.NewAuthority("olm-selfsigned-1f2e3d4c", serving.Validity, f.issuedAt)
	f.Must(err)
	pair, err := authority.Issue(serving.Hosts(f.service, f.namespace), serving.Validity, f.issuedAt)
	f.Must(err)
	key, err := pair.KeyPEM()
	f.Must(err)
	f.certificate = map[string][]byte{corev1.TLSCertKey: pair.CertificatePEM(), corev1.TLSPrivateKeyKey: key, serving.KeyCA: authority.CertificatePEM()}
}

// waitForAPI waits until the API server reaches the operator.
func (f *formerInstallation) waitForAPI() {
	f.T.Helper()
	f.eventually("the API is available", func() bool {
		api := &apiregistrationv1.APIService{}
		return f.Get(f.T.Context(), client.ObjectKey{Name: "v1." + f.group}, api) == nil && serving.IsAvailable(api)
	})
}

// An operator that another OLM Classic installed before objects had labels is taken over. Its objects are labelled and
// watched. Its certificate, its Deployment and its status do not change.
func TestTakeover(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFormerInstallation(t, listener)
	f.service, f.secret = "things-service", "things-service-cert"
	f.createObjects(nil)
	stranger := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "stranger"}}
	f.CreateAll(stranger)
	f.serveAPI(listener, "things", f.group)
	f.waitForAPI()
	before := f.waitForDeployment("things")
	f.startManager()

	for _, object := range f.objects {
		f.eventually("the label of "+object.GetName(), func() bool {
			return f.Get(t.Context(), client.ObjectKeyFromObject(object), object) == nil && object.GetLabels()[csvinfo.LabelManaged] == "true"
		})
	}

	after, secret := f.waitForDeployment("things"), &corev1.Secret{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: f.secret}, secret))
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(stranger), stranger))
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" || after.UID != before.UID {
		t.Errorf("the Deployment has UID %s, want %s, and another spec (-before +after):\n%s", after.UID, before.UID, diff)
	}
	if !cmp.Equal(f.certificate, secret.Data) {
		t.Error("the certificate was issued again, want the former one")
	}
	if diff := cmp.Diff(f.csv.Status, f.get(f.csv.Name).Status); diff != "" {
		t.Errorf("the status of the ClusterServiceVersion changed (-before +after):\n%s", diff)
	}
	if got, ok := stranger.Labels[csvinfo.LabelManaged]; ok {
		t.Errorf("the Secret of a user has the label %s=%s, want none", csvinfo.LabelManaged, got)
	}

	f.Must(f.Delete(t.Context(), after))
	f.eventually("the deleted Deployment is created again", func() bool {
		recreated := &appsv1.Deployment{}
		return f.Get(t.Context(), client.ObjectKeyFromObject(after), recreated) == nil && recreated.UID != after.UID
	})
}

// Early releases named the serving objects after the API. The operator gets objects with the current names, and those
// of the former objects that have its owner labels are deleted.
func TestTakeoverOfEarlyNames(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // Nothing serves the API.
	f := newFormerInstallation(t, listener)
	f.service, f.secret = strings.ReplaceAll("v1."+f.group, ".", "-"), "v1."+f.group+"-cert"
	f.createObjects(csvinfo.OwnerLabels(f.namespace, f.csv.Name))
	ofUser := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.secret}}
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(ofUser), ofUser))
	ofUser.Labels = nil
	f.Must(f.Update(t.Context(), ofUser))
	f.startManager()

	api := &apiregistrationv1.APIService{}
	f.eventually("the API leads to the Service with the name of the Deployment", func() bool {
		return f.Get(t.Context(), client.ObjectKey{Name: "v1." + f.group}, api) == nil && api.Spec.Service.Name == "things-service"
	})
	for _, object := range f.objects {
		_, isDeployment := object.(*appsv1.Deployment)
		_, isRole := object.(*rbacv1.Role)
		if !isDeployment && !isRole {
			f.waitUntilGone(object)
		}
	}

	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(ofUser), ofUser))
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "things-service-cert"}, &corev1.Secret{}))
}

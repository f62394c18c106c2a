package serving

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

const (
	// authNamespace is the namespace in which API servers publish their client authentication.
	authNamespace = metav1.NamespaceSystem
	// authReader is the Role that may read this configuration. authDelegator is the ClusterRole that
	// may delegate authentication and authorization to the API server.
	authReader    = "extension-apiserver-authentication-reader"
	authDelegator = "system:auth-delegator"
	// Priorities of APIServices, by which clients choose among versions.
	groupPriority, versionPriority = 2000, 15
)

// newOwnedMeta returns the metadata of an object in the namespace of its ClusterServiceVersion.
func newOwnedMeta(csv *v1alpha1.ClusterServiceVersion, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: csv.Namespace, Name: name, Labels: csvinfo.MergeLabels(csvinfo.ComponentLabels(csv.Labels), map[string]string{csvinfo.LabelManaged: "true"}),
		OwnerReferences: []metav1.OwnerReference{csvinfo.OwnerReference(csv)},
	}
}

// newLabelledMeta returns the metadata of an object outside of the namespace of its ClusterServiceVersion. It has
// owner labels, because an owner reference is not possible.
func newLabelledMeta(csv *v1alpha1.ClusterServiceVersion, namespace, name string) metav1.ObjectMeta {
	labels := csvinfo.MergeLabels(csvinfo.ComponentLabels(csv.Labels), csvinfo.OwnerLabels(csv.Namespace, csv.Name), map[string]string{csvinfo.LabelManaged: "true"})
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
}

func newService(csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: newOwnedMeta(csv, csvinfo.ServiceName(e.Deployment.Name)),
		Spec:       corev1.ServiceSpec{Ports: e.Ports, Selector: e.Deployment.Spec.Template.Labels},
	}
	if selector := e.Deployment.Spec.Selector; selector != nil && len(selector.MatchLabels) > 0 {
		s.Spec.Selector = selector.MatchLabels
	}
	return s
}

func newSecret(csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint, data map[string][]byte) *corev1.Secret {
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: newOwnedMeta(csv, csvinfo.SecretName(e.Deployment.Name)),
		Type:       corev1.SecretTypeTLS, Data: data,
	}
	s.Annotations = map[string]string{csvinfo.AnnotationCAHash: CAHash(data[KeyCA])}
	return s
}

func newRole(csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint) *rbacv1.Role {
	name := csvinfo.SecretName(e.Deployment.Name)
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: newOwnedMeta(csv, name),
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}}},
	}
}

func newRoleBinding(csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint) *rbacv1.RoleBinding {
	name := csvinfo.SecretName(e.Deployment.Name)
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: newOwnedMeta(csv, name),
		Subjects:   newSubjects(csv, e), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}
}

func newDelegatorBinding(csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: newLabelledMeta(csv, "", csvinfo.ServiceName(e.Deployment.Name)+"-"+authDelegator),
		Subjects:   newSubjects(csv, e), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: authDelegator},
	}
}

func newReaderBinding(csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: newLabelledMeta(csv, authNamespace, csvinfo.ServiceName(e.Deployment.Name)+"-auth-reader"),
		Subjects:   newSubjects(csv, e), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: authReader},
	}
}

func newSubjects(csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: csv.Namespace, Name: e.ServiceAccount()}}
}

// newAPIService returns the APIService of an owned API.
func newAPIService(csv *v1alpha1.ClusterServiceVersion, api *v1alpha1.APIServiceDescription, ca []byte) *apiregistrationv1.APIService {
	port := api.ContainerPort
	if port == 0 {
		port = csvinfo.DefaultPort
	}
	return &apiregistrationv1.APIService{
		ObjectMeta: newLabelledMeta(csv, "", csvinfo.APIServiceName(*api)),
		Spec: apiregistrationv1.APIServiceSpec{
			Group: api.Group, Version: api.Version, CABundle: ca, GroupPriorityMinimum: groupPriority, VersionPriority: versionPriority,
			Service: &apiregistrationv1.ServiceReference{Namespace: csv.Namespace, Name: csvinfo.ServiceName(api.DeploymentName), Port: ptr.To(port)},
		},
	}
}

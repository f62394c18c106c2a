package serving

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/owned"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Certificates are in Secrets of the operators' namespaces, which may be any. The controller watches the metadata
// of Secrets with the label olm.managed, but a role cannot be limited to labels.

// +kubebuilder:rbac:groups="",resources=services;secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings;clusterrolebindings,verbs=create;patch

// The bindings to the role by which API servers read the client authentication are in kube-system.

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,namespace=kube-system,resources=rolebindings,verbs=list;delete
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=get;list;watch;create;update;delete

// Field managers of server-side apply. The one for Services is that of other OLM implementations, so that no field
// has two managers after a migration.
const (
	serviceManager = client.FieldOwner("olm.install")
	fieldManager   = client.FieldOwner("mainstay")
)

// Server creates and updates the objects in front of webhooks and APIs.
type Server struct {
	// Client writes with the rights of the account that installs the operator.
	Client client.Client
	// Reader reads from the API server without the cache.
	Reader client.Reader
	// Now returns the current time.
	Now func() time.Time
	// Annotations are set on created APIServices; may be nil.
	Annotations map[string]string
}

// Issued describes the serving certificates of an installation.
type Issued struct {
	// CAs are the certificates of the authorities by Deployment, PEM encoded.
	CAs map[string][]byte
	// Updated is true when a certificate was issued. RotateAt is the earliest time for a renewal.
	Updated  bool
	RotateAt time.Time
}

// Ensure applies the Services, certificates and rights for all endpoints of a ClusterServiceVersion. It keeps
// valid certificates, so that pods are not replaced needlessly.
func (s *Server) Ensure(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*Issued, error) {
	issued := &Issued{CAs: map[string][]byte{}}
	// All certificates that are issued now have the same authority.
	authority := sync.OnceValues(func() (*certificate.Pair, error) { return newAuthority(s.Now()) })
	for _, e := range csvinfo.Endpoints(csv) {
		if err := s.applyObject(ctx, newService(csv, &e), serviceManager); err != nil {
			return nil, err
		}

		found, isNew, err := s.ensureSecret(ctx, csv, &e, authority)
		if err != nil {
			return nil, err
		}
		issued.Updated = issued.Updated || isNew

		issued.CAs[e.Deployment.Name] = found.Data[KeyCA]
		if at := rotationTime(found); issued.RotateAt.IsZero() || at.Before(issued.RotateAt) {
			issued.RotateAt = at
		}
		if err := s.applyRights(ctx, csv, &e); err != nil {
			return nil, err
		}
	}

	return issued, nil
}

// ensureSecret applies the Secret with the certificate of an endpoint. It issues a certificate when the present one is
// missing or stale, which isNew reports.
func (s *Server) ensureSecret(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint, authority func() (*certificate.Pair, error)) (secret *corev1.Secret, isNew bool, err error) {
	found, err := s.readSecret(ctx, csv, e)
	if err != nil {
		return nil, false, err
	}

	hosts := serviceHosts(e, csv.Namespace)
	if StaleReason(found, hosts, s.Now()) == "" {
		secret = newSecret(csv, e, found.Data)
		return secret, false, s.applyObject(ctx, secret, fieldManager)
	}

	issuer, err := authority()
	if err != nil {
		return nil, false, err
	}

	data, err := issueSecretData(issuer, hosts, s.Now())
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", secretText(e, csv.Namespace), err)
	}

	secret = newSecret(csv, e, data)
	return secret, true, s.applyObject(ctx, secret, fieldManager)
}

// applyRights lets the pods read their certificate. It lets pods that serve APIs delegate authentication to the API
// server.
func (s *Server) applyRights(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint) error {
	objects := []client.Object{newRole(csv, e), newRoleBinding(csv, e)}
	if e.ServesAPIs {
		objects = append(objects, newDelegatorBinding(csv, e), newReaderBinding(csv, e))
	}

	for _, object := range objects {
		if err := s.applyObject(ctx, object, fieldManager); err != nil {
			return err
		}
	}
	return nil
}

// EnsureAPIServices creates or updates the APIServices of the owned APIs. It returns an error if one belongs to
// another owner, which mayAdopt decides for existing ones.
func (s *Server) EnsureAPIServices(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, issued *Issued, mayAdopt func(*apiregistrationv1.APIService) bool) error {
	for i := range csv.Spec.APIServiceDefinitions.Owned {
		api := &csv.Spec.APIServiceDefinitions.Owned[i]
		wanted := newAPIService(csv, api, issued.CAs[api.DeploymentName])
		found := &apiregistrationv1.APIService{}
		err := s.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), found)
		switch {
		case apierrors.IsNotFound(err):
			wanted.Annotations = maps.Clone(s.Annotations)
			err = s.Client.Create(ctx, wanted)
		case err == nil && !mayAdopt(found):
			return NewNotAdoptableError(wanted.Name)
		case err == nil:
			before := found.DeepCopy()
			found.Labels = csvinfo.MergeLabels(found.Labels, wanted.Labels)
			found.Spec = wanted.Spec
			if equality.Semantic.DeepEqual(before, found) {
				continue
			}
			err = s.Client.Update(ctx, found)
		}

		if err != nil {
			return fmt.Errorf("APIService %s: %w", wanted.Name, err)
		}
	}

	return nil
}

// NewNotAdoptableError returns the error for an APIService that belongs to another owner.
func NewNotAdoptableError(name string) error {
	return fmt.Errorf("pre-existing APIService %s is not adoptable", name)
}

func (s *Server) readSecret(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	key := client.ObjectKey{Namespace: csv.Namespace, Name: csvinfo.SecretName(e.Deployment.Name)}
	if err := s.Reader.Get(ctx, key, found); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return found, nil
}

// applyObject applies an object by server-side apply.
func (s *Server) applyObject(ctx context.Context, object client.Object, manager client.FieldOwner) error {
	content, err := toApplyConfiguration(object)
	if err == nil {
		err = s.Client.Apply(ctx, content, manager, client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

func toApplyConfiguration(object client.Object) (runtime.ApplyConfiguration, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	return client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content}), nil
}

// Remove deletes the APIServices of a ClusterServiceVersion and its bindings in kube-system. The caller deletes
// cluster-scoped roles and bindings.
func (s *Server) Remove(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	if len(csv.Spec.APIServiceDefinitions.Owned) == 0 {
		return nil
	}

	bindings := rbacv1.SchemeGroupVersion.WithKind("RoleBinding")
	if _, err := owned.Delete(ctx, s.Reader, s.Client, bindings, client.ObjectKeyFromObject(csv), client.InNamespace(authNamespace)); err != nil {
		return err
	}

	apis := apiregistrationv1.SchemeGroupVersion.WithKind("APIService")
	_, err := owned.Delete(ctx, s.Client, s.Client, apis, client.ObjectKeyFromObject(csv))
	return err
}

package serving

import (
	"context"
	"fmt"
	"maps"
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
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/owned"
)

// Certificates lie in Secrets of the operators' namespaces, which may be any. A lost one is noticed by
// the metadata of those with the label olm.managed; a role cannot be bound to labels.

// +kubebuilder:rbac:groups="",resources=services;secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings;clusterrolebindings,verbs=create;patch

// In kube-system lie the bindings to the role by which servers of APIs read who their clients are.

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,namespace=kube-system,resources=rolebindings,verbs=list;delete
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=get;list;watch;create;update;delete

// Field managers of server-side apply. The Service has the one that other implementations use, so
// that no field of it has two managers after a take-over.
const (
	serviceManager = client.FieldOwner("olm.install")
	fieldManager   = client.FieldOwner("mainstay")
)

// Server makes what stands in front of webhooks and APIs.
type Server struct {
	// Client writes, with the rights of whom the installation is made as.
	Client client.Client
	// Reader reads from the API server itself.
	Reader client.Reader
	// Now tells the time.
	Now func() time.Time
	// Annotations are put on APIServices that are made; nil is none.
	Annotations map[string]string
}

// Issued is what an installation serves with.
type Issued struct {
	// CAs are the authorities, by Deployment, in PEM.
	CAs map[string][]byte
	// Updated: a certificate was made. RotateAt is when the first of all ends.
	Updated  bool
	RotateAt time.Time
}

// Ensure makes Services, certificates and rights for all that a ClusterServiceVersion serves. A
// certificate that is good is kept, so that pods are not replaced needlessly.
func (s *Server) Ensure(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*Issued, error) {
	issued := &Issued{CAs: map[string][]byte{}}
	var authority *certificate.Pair
	for _, e := range csvinfo.Endpoints(csv) {
		if err := s.apply(ctx, service(csv, &e), serviceManager); err != nil {
			return nil, err
		}

		found, err := s.secret(ctx, csv, &e)
		if err != nil {
			return nil, err
		}

		if Stale(found, hostsOf(&e, csv.Namespace), s.Now()) != "" {
			if authority == nil {
				if authority, err = newAuthority(s.Now()); err != nil {
					return nil, err
				}
			}
			data, err := issue(authority, hostsOf(&e, csv.Namespace), s.Now())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", secretOf(&e, csv.Namespace), err)
			}
			found, issued.Updated = secret(csv, &e, data), true
		} else {
			found = secret(csv, &e, found.Data)
		}

		if err := s.apply(ctx, found, fieldManager); err != nil {
			return nil, err
		}

		issued.CAs[e.Deployment.Name] = found.Data[KeyCA]
		if at := rotateAt(found); issued.RotateAt.IsZero() || at.Before(issued.RotateAt) {
			issued.RotateAt = at
		}
		if err := s.rights(ctx, csv, &e); err != nil {
			return nil, err
		}
	}

	return issued, nil
}

// rights lets the pods read their certificate, and those that serve APIs ask the API server about
// their clients.
func (s *Server) rights(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint) error {
	objects := []client.Object{role(csv, e), roleBinding(csv, e)}
	if e.ServesAPIs {
		objects = append(objects, delegatorBinding(csv, e), readerBinding(csv, e))
	}

	for _, object := range objects {
		if err := s.apply(ctx, object, fieldManager); err != nil {
			return err
		}
	}
	return nil
}

// EnsureAPIServices registers the owned APIs. It fails when one is another's; mayAdopt tells of one
// that exists whether it is not.
func (s *Server) EnsureAPIServices(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, issued *Issued, mayAdopt func(*apiregistrationv1.APIService) bool) error {
	for i := range csv.Spec.APIServiceDefinitions.Owned {
		api := &csv.Spec.APIServiceDefinitions.Owned[i]
		wanted := apiService(csv, api, issued.CAs[api.DeploymentName])
		found := &apiregistrationv1.APIService{}
		err := s.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), found)
		switch {
		case apierrors.IsNotFound(err):
			wanted.Annotations = maps.Clone(s.Annotations)
			err = s.Client.Create(ctx, wanted)
		case err == nil && !mayAdopt(found):
			return NotAdoptable(wanted.Name)
		case err == nil:
			before := found.DeepCopy()
			found.Labels = csvinfo.With(found.Labels, wanted.Labels)
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

// NotAdoptable says that an APIService is another's.
func NotAdoptable(name string) error {
	return fmt.Errorf("pre-existing APIService %s is not adoptable", name)
}

func (s *Server) secret(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, e *csvinfo.Endpoint) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	key := client.ObjectKey{Namespace: csv.Namespace, Name: csvinfo.SecretName(e.Deployment.Name)}
	if err := s.Reader.Get(ctx, key, found); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return found, nil
}

// apply writes an object, of which nothing but what is given is ours.
func (s *Server) apply(ctx context.Context, object client.Object, manager client.FieldOwner) error {
	content, err := toApply(object)
	if err == nil {
		err = s.Client.Apply(ctx, content, manager, client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

func toApply(object client.Object) (runtime.ApplyConfiguration, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	return client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content}), nil
}

// Remove deletes what of a ClusterServiceVersion lies outside of its namespace, and no other takes
// over: its APIServices, and bindings in kube-system. Cluster-scoped roles and bindings are left to
// the caller.
func (s *Server) Remove(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) error {
	if len(csv.Spec.APIServiceDefinitions.Owned) == 0 {
		return nil
	}

	bindings := rbacv1.SchemeGroupVersion.WithKind("RoleBinding")
	if _, err := owned.Delete(ctx, s.Reader, s.Client, bindings, client.ObjectKeyFromObject(csv), client.InNamespace(authNamespace)); err != nil {
		return err
	}
	return s.RemoveAPIServices(ctx, csv.Namespace, csv.Name)
}

// RemoveAPIServices deletes the APIServices whose labels name a ClusterServiceVersion.
func (s *Server) RemoveAPIServices(ctx context.Context, namespace, name string) error {
	apis := apiregistrationv1.SchemeGroupVersion.WithKind("APIService")
	_, err := owned.Delete(ctx, s.Client, s.Client, apis, client.ObjectKey{Namespace: namespace, Name: name})
	return err
}

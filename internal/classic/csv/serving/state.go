package serving

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// State has the existing objects in front of the webhooks and APIs of a ClusterServiceVersion.
type State struct {
	csv       *v1alpha1.ClusterServiceVersion
	endpoints []csvinfo.Endpoint
	// secrets are the serving Secrets, by Deployment.
	secrets map[string]*corev1.Secret
	// services is true for each Deployment whose Service exists.
	services map[string]bool
	// missing has messages about the other objects that do not exist, by Deployment.
	missing map[string][]string
	// apis are the APIServices, by name.
	apis map[string]*apiregistrationv1.APIService
}

// Read reads the State of a ClusterServiceVersion. It sends no request if there are no endpoints.
func (s *Server) Read(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*State, error) {
	st := &State{
		csv: csv, endpoints: csvinfo.Endpoints(csv), secrets: map[string]*corev1.Secret{}, services: map[string]bool{},
		missing: map[string][]string{}, apis: map[string]*apiregistrationv1.APIService{},
	}
	for i := range st.endpoints {
		e := &st.endpoints[i]
		found, err := s.readSecret(ctx, csv, e)
		if err != nil {
			return nil, err
		}
		if found != nil {
			st.secrets[e.Deployment.Name] = found
		}
		if !e.ServesAPIs {
			continue
		}
		if err := s.readRelatedObjects(ctx, st, e); err != nil {
			return nil, err
		}
	}

	for _, api := range csv.Spec.APIServiceDefinitions.Owned {
		found := &apiregistrationv1.APIService{}
		name := csvinfo.APIServiceName(api)
		if err := s.Reader.Get(ctx, client.ObjectKey{Name: name}, found); err == nil {
			st.apis[name] = found
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading APIService %s: %w", name, err)
		}
	}

	return st, nil
}

// readRelatedObjects checks the Service, the service account and the rights of a Deployment that serves APIs.
func (s *Server) readRelatedObjects(ctx context.Context, st *State, e *csvinfo.Endpoint) error {
	exists := func(object client.Object) (bool, error) {
		probe := &metav1.PartialObjectMetadata{}
		probe.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
		err := s.Reader.Get(ctx, client.ObjectKeyFromObject(object), probe)
		if err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("looking for %s %s: %w", probe.Kind, client.ObjectKeyFromObject(object), err)
		}

		return err == nil, nil
	}

	found, err := exists(newService(st.csv, e))
	if err != nil {
		return err
	}

	st.services[e.Deployment.Name] = found
	account := &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Namespace: st.csv.Namespace, Name: e.ServiceAccount()},
	}
	for _, object := range []client.Object{account, newRole(st.csv, e), newRoleBinding(st.csv, e), newDelegatorBinding(st.csv, e), newReaderBinding(st.csv, e)} {
		found, err := exists(object)
		if err != nil {
			return err
		}
		if !found {
			st.missing[e.Deployment.Name] = append(st.missing[e.Deployment.Name],
				fmt.Sprintf("%s %s not found", object.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(object)))
		}
	}

	return nil
}

// CAHashes returns the hashes of the authorities by Deployment. It omits Deployments without an authority.
func (st *State) CAHashes() map[string]string {
	hashes := map[string]string{}
	for name, secret := range st.secrets {
		if ca := secret.Data[KeyCA]; len(ca) > 0 {
			hashes[name] = CAHash(ca)
		}
	}
	return hashes
}

// MustRotate reports whether a certificate must be renewed.
func (st *State) MustRotate(now time.Time) bool {
	for i := range st.endpoints {
		e := &st.endpoints[i]
		if StaleReason(st.secrets[e.Deployment.Name], serviceHosts(e, st.csv.Namespace), now) != "" {
			return true
		}
	}
	return false
}

// RotateAt returns when the first certificate must be renewed; the zero time when there is none.
func (st *State) RotateAt() time.Time {
	var first time.Time
	for _, secret := range st.secrets {
		if at := rotationTime(secret); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// CheckAdoptable returns an error for an APIService that belongs to another owner; nil when there is none.
func (st *State) CheckAdoptable(mayAdopt func(*apiregistrationv1.APIService) bool) error {
	for _, api := range st.csv.Spec.APIServiceDefinitions.Owned {
		if found := st.apis[csvinfo.APIServiceName(api)]; found != nil && !mayAdopt(found) {
			return NewNotAdoptableError(found.Name)
		}
	}
	return nil
}

// Issues returns the differences between the owned APIs and what was installed. live returns the Deployment of a
// name; nil when it does not exist.
func (st *State) Issues(live func(string) *appsv1.Deployment, mayAdopt func(*apiregistrationv1.APIService) bool) []error {
	var issues []error
	for _, api := range st.csv.Spec.APIServiceDefinitions.Owned {
		if err := st.checkAPIService(&api, live(api.DeploymentName), mayAdopt); err != nil {
			issues = append(issues, err)
		}
		for _, missing := range st.missing[api.DeploymentName] {
			issues = append(issues, fmt.Errorf("%s", missing))
		}
	}

	return issues
}

func (st *State) checkAPIService(api *v1alpha1.APIServiceDescription, deployment *appsv1.Deployment, mayAdopt func(*apiregistrationv1.APIService) bool) error {
	name, service := csvinfo.APIServiceName(*api), csvinfo.ServiceName(api.DeploymentName)
	registered, secret := st.apis[name], st.secrets[api.DeploymentName]
	switch {
	case registered == nil:
		return fmt.Errorf("APIService %s not found", name)
	case !mayAdopt(registered):
		return NewNotAdoptableError(name)
	case !st.services[api.DeploymentName]:
		return fmt.Errorf("service %s/%s not found", st.csv.Namespace, service)
	case registered.Spec.Service == nil || registered.Spec.Service.Name != service || registered.Spec.Service.Namespace != st.csv.Namespace:
		return fmt.Errorf("found APIService and service reference mismatch")
	}

	if _, err := certificate.ParseBundle(registered.Spec.CABundle); err != nil {
		return fmt.Errorf("CA bundle of APIService %s: %w", name, err)
	}
	if secret == nil {
		return fmt.Errorf("secret %s/%s not found", st.csv.Namespace, csvinfo.SecretName(api.DeploymentName))
	}

	hash := CAHash(registered.Spec.CABundle)
	if CAHash(secret.Data[KeyCA]) != hash || secret.Annotations[csvinfo.AnnotationCAHash] != hash {
		return fmt.Errorf("secret %s CA cert hash does not match expected", secret.Name)
	}
	if deployment == nil {
		return fmt.Errorf("deployment %s/%s not found", st.csv.Namespace, api.DeploymentName)
	}
	if deployment.Spec.Template.Annotations[csvinfo.AnnotationCAHash] != hash {
		return fmt.Errorf("deployment %s CA cert hash does not match expected", deployment.Name)
	}

	return nil
}

// Unavailable returns the owned APIServices that the API server cannot reach.
func (st *State) Unavailable() []v1alpha1.APIServiceDescription {
	var unavailable []v1alpha1.APIServiceDescription
	for _, api := range st.csv.Spec.APIServiceDefinitions.Owned {
		if found := st.apis[csvinfo.APIServiceName(api)]; found == nil || !IsAvailable(found) {
			unavailable = append(unavailable, api)
		}
	}
	return unavailable
}

// IsAvailable reports whether the API server can reach an APIService.
func IsAvailable(s *apiregistrationv1.APIService) bool {
	for _, c := range s.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			return c.Status == apiregistrationv1.ConditionTrue
		}
	}
	return false
}

// MayAdopt returns a function that reports whether a ClusterServiceVersion may adopt an APIService. It may if the
// owner labels name itself or the one that it replaces, or one whose phase is Replacing or Deleting.
func MayAdopt(csv *v1alpha1.ClusterServiceVersion, phase func(namespace, name string) v1alpha1.ClusterServiceVersionPhase) func(*apiregistrationv1.APIService) bool {
	return func(found *apiregistrationv1.APIService) bool {
		namespace, name, ok := csvinfo.OwnedByLabels(found.Labels)
		if !ok {
			return false
		}
		if namespace == csv.Namespace && (name == csv.Name || name == csv.Spec.Replaces) {
			return true
		}

		ownerPhase := phase(namespace, name)
		return ownerPhase == v1alpha1.CSVPhaseReplacing || ownerPhase == v1alpha1.CSVPhaseDeleting
	}
}

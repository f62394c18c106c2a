package console

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// Permission is something that a user may be allowed to do.
type Permission struct {
	Verb     string `json:"verb" maxLength:"63"`
	Group    string `json:"group,omitempty" maxLength:"253"`
	Resource string `json:"resource" maxLength:"253"`
	// Namespace is empty for cluster-scoped resources, and for all namespaces.
	Namespace string `json:"namespace,omitempty" maxLength:"63"`
	Name      string `json:"name,omitempty" maxLength:"253"`
}

// accessRequest asks for permissions.
type accessRequest struct {
	Body struct {
		Permissions []Permission `json:"permissions" maxItems:"100"`
	}
}

// AccessReview has an answer for each requested permission, in the same order.
type AccessReview struct {
	Allowed []bool `json:"allowed"`
}

// Namespaces are the namespaces that a user may see.
type Namespaces struct {
	Names []string `json:"names"`
	// Forbidden means that the user may not list namespaces, and has to name one.
	Forbidden bool `json:"forbidden,omitempty"`
}

// registerAccess adds the operations about the rights of the user.
func registerAccess(api huma.API) {
	registerPost(api, "reviewAccess", "/access", "What the user may do", reviewAccess)
	get(api, "listNamespaces", "/namespaces", "The namespaces that the user may list", listNamespaces)
}

// reviewAccess asks the API server for each permission.
func reviewAccess(ctx context.Context, user *session.Session, input *accessRequest) (AccessReview, error) {
	review := AccessReview{Allowed: make([]bool, len(input.Body.Permissions))}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(8)
	for i, p := range input.Body.Permissions {
		work.Go(func() error {
			question := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: p.Verb, Group: p.Group, Resource: p.Resource, Namespace: p.Namespace, Name: p.Name},
			}}
			err := user.Client.Create(ctx, question)
			review.Allowed[i] = question.Status.Allowed
			return err
		})
	}
	return review, work.Wait()
}

// maxNamespaces limits the namespaces that are listed.
const maxNamespaces = 10_000

func listNamespaces(ctx context.Context, user *session.Session, _ *struct{}) (Namespaces, error) {
	namespaces := Namespaces{Names: []string{}}
	var list corev1.NamespaceList
	err := user.Client.List(ctx, &list, client.Limit(maxNamespaces))
	if apierrors.IsForbidden(err) {
		namespaces.Forbidden = true
		return namespaces, nil
	}

	for i := range list.Items {
		namespaces.Names = append(namespaces.Names, list.Items[i].Name)
	}
	return namespaces, err
}

package console

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/diagnosis"
	"github.com/mainstay-dev/mainstay/internal/action/inventory"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// namespaceInput selects a namespace.
type namespaceInput struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Empty means all namespaces."`
}

// nameInput selects a cluster-scoped object.
type nameInput struct {
	Name string `path:"name" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
}

// namespacedNameInput selects an object in a namespace.
type namespacedNameInput struct {
	Namespace string `path:"namespace" maxLength:"63" pattern:"^[a-z0-9-]+$"`
	Name      string `path:"name" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
}

// ExtensionDetails is a ClusterExtension with all that belongs to it, and why it is as it is.
type ExtensionDetails struct {
	State       *action.ExtensionState `json:"state"`
	Explanation *diagnosis.Explanation `json:"explanation"`
}

// OperatorDetails is a Subscription with all that belongs to it, and why it is as it is.
type OperatorDetails struct {
	State       *subscription.Tree     `json:"state"`
	Explanation *diagnosis.Explanation `json:"explanation"`
}

// registerInstalled adds the operations about what is installed.
func registerInstalled(api huma.API) {
	get(api, "listInstalled", "/installed", "Extensions and operators on the cluster",
		func(ctx context.Context, user *session.Session, input *namespaceInput) (inventory.Inventory, error) {
			list := &inventory.List{Client: user.Client, Namespace: input.Namespace}
			return list.Run(ctx), ctx.Err()
		})
	get(api, "getExtension", "/extensions/{name}", "An extension of OLM v1", readExtension)
	get(api, "getSubscription", "/namespaces/{namespace}/subscriptions/{name}", "An operator of OLM Classic", readSubscription)
}

func readExtension(ctx context.Context, user *session.Session, input *nameInput) (ExtensionDetails, error) {
	var details ExtensionDetails
	var err error
	if details.State, err = (&action.ExtensionStatus{Client: user.Client, Name: input.Name}).Run(ctx); err != nil {
		return details, err
	}
	details.Explanation, err = (&action.ExtensionExplain{Client: user.Client, Name: input.Name}).Run(ctx)
	return details, err
}

func readSubscription(ctx context.Context, user *session.Session, input *namespacedNameInput) (OperatorDetails, error) {
	var details OperatorDetails
	var err error
	if details.State, err = (&subscription.Status{Client: user.Client, Namespace: input.Namespace, Name: input.Name}).Run(ctx); err != nil {
		return details, err
	}
	details.Explanation, err = (&subscription.Explain{Client: user.Client, Namespace: input.Namespace, Name: input.Name}).Run(ctx)
	return details, err
}

package console

import (
	"context"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/action/operands"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// ResourceParams select a kind of custom resources. Kinds of the core group, such as Secrets, have no such path. The type is
// exported because huma reads only exported embedded fields.
type ResourceParams struct {
	Group   string `path:"group" maxLength:"253" pattern:"^[a-z0-9-]+([.][a-z0-9-]+)+$"`
	Version string `path:"version" maxLength:"63" pattern:"^[a-z0-9]+$"`
	Plural  string `path:"plural" maxLength:"63" pattern:"^[a-z0-9-]+$"`
}

func (p *ResourceParams) toResource() operands.Resource {
	return operands.Resource{Group: p.Group, Version: p.Version, Plural: p.Plural}
}

// operandsInput selects a page of custom resources.
type operandsInput struct {
	ResourceParams
	Namespace string `query:"namespace" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Empty means all namespaces, or a cluster-scoped object."`
	Continue  string `query:"continue" maxLength:"4096" doc:"The value of the previous page."`
}

// operandInput selects a custom resource. The namespace is empty for a cluster-scoped kind.
type operandInput struct {
	ResourceParams
	Namespace string `query:"namespace" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Empty means all namespaces, or a cluster-scoped object."`
	Name      string `query:"name" required:"true" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
}

// definitionInput selects the description of a kind.
type definitionInput struct {
	ResourceParams
	Namespace string `query:"namespace" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Empty means all namespaces, or a cluster-scoped object."`
}

// writeOperandInput is a custom resource to create, or to update if it has a resource version.
type writeOperandInput struct {
	ResourceParams
	Body struct {
		Object map[string]any `json:"object"`
		// DryRun asks whether the write would work.
		DryRun bool `json:"dryRun,omitempty"`
	}
}

// deleteOperandInput selects the custom resource to delete.
type deleteOperandInput struct {
	ResourceParams
	Body struct {
		Namespace string `json:"namespace,omitempty" maxLength:"63" pattern:"^[a-z0-9-]*$"`
		Name      string `json:"name" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
		// UID is that of the object that the user has seen.
		UID string `json:"uid" minLength:"1" maxLength:"63"`
	}
}

// namesInput selects a kind whose objects a field can name.
type namesInput struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Empty means all namespaces, or a cluster-scoped object."`
	Group     string `query:"group" maxLength:"253" pattern:"^[a-z0-9.-]*$"`
	Version   string `query:"version" maxLength:"63" pattern:"^[a-z0-9]*$"`
	Kind      string `query:"kind" required:"true" maxLength:"63" pattern:"^[A-Za-z0-9]+$"`
}

// OperandAPIs are the kinds that an extension or operator provides.
type OperandAPIs struct {
	Items []operands.OperandAPI `json:"items"`
}

// ObjectNames are the names of objects.
type ObjectNames struct {
	Names []string `json:"names"`
}

// OperandDeleted is the response to a deletion. Finalizers may keep the object for a while.
type OperandDeleted struct{}

const operandPath = "/operands/{group}/{version}/{plural}"

// registerOperands adds the operations about custom resources.
func registerOperands(api huma.API) {
	get(api, "listExtensionAPIs", "/extensions/{name}/apis", "The kinds of an extension", listExtensionAPIs)
	get(api, "listSubscriptionAPIs", "/namespaces/{namespace}/subscriptions/{name}/apis", "The kinds of an operator of OLM Classic", listSubscriptionAPIs)
	get(api, "listCSVAPIs", "/namespaces/{namespace}/clusterserviceversions/{name}/apis", "The kinds of an operator without a Subscription", listCSVAPIs)
	get(api, "listNames", "/names", "The names of the objects of a kind", listNames)

	get(api, "getDefinition", operandPath+"/definition", "The schema, descriptors and examples of a kind", readDefinition)
	get(api, "listOperands", operandPath, "Custom resources of a kind", listOperands)
	get(api, "getOperand", operandPath+"/object", "A custom resource", readOperand)
	get(api, "listRelated", operandPath+"/related", "The objects that a custom resource owns", listRelated)
	registerPost(api, "writeOperand", operandPath, "Create or update a custom resource, or ask whether that works", writeOperand)
	registerPost(api, "deleteOperand", operandPath+"/delete", "Delete a custom resource", deleteOperand)
}

func listExtensionAPIs(ctx context.Context, user *session.Session, input *nameInput) (OperandAPIs, error) {
	items, err := (&operands.OfExtension{Client: user.Client, Name: input.Name}).Run(ctx)
	return OperandAPIs{Items: items}, err
}

func listSubscriptionAPIs(ctx context.Context, user *session.Session, input *namespacedNameInput) (OperandAPIs, error) {
	items, err := (&operands.OfOperator{Client: user.Client, Namespace: input.Namespace, Subscription: input.Name}).Run(ctx)
	return OperandAPIs{Items: items}, err
}

func listCSVAPIs(ctx context.Context, user *session.Session, input *namespacedNameInput) (OperandAPIs, error) {
	items, err := (&operands.OfOperator{Client: user.Client, Namespace: input.Namespace, CSV: input.Name}).Run(ctx)
	return OperandAPIs{Items: items}, err
}

func listNames(ctx context.Context, user *session.Session, input *namesInput) (ObjectNames, error) {
	names, err := operands.ListNames(ctx, user.Client, schema.GroupKind{Group: input.Group, Kind: input.Kind}, input.Version, input.Namespace)
	return ObjectNames{Names: names}, err
}

func readDefinition(ctx context.Context, user *session.Session, input *definitionInput) (*operands.OperandDefinition, error) {
	return (&operands.Define{Client: user.Client, Config: user.Config, Resource: input.toResource(), Namespace: input.Namespace}).Run(ctx)
}

func listOperands(ctx context.Context, user *session.Session, input *operandsInput) (*operands.OperandPage, error) {
	return (&operands.List{Client: user.Client, Resource: input.toResource(), Namespace: input.Namespace, Continue: input.Continue}).Run(ctx)
}

func readOperand(ctx context.Context, user *session.Session, input *operandInput) (*operands.OperandDetails, error) {
	return (&operands.Show{Client: user.Client, Resource: input.toResource(), Namespace: input.Namespace, Name: input.Name}).Run(ctx)
}

func listRelated(ctx context.Context, user *session.Session, input *operandInput) (*operands.RelatedObjects, error) {
	return (&operands.Related{Client: user.Client, Resource: input.toResource(), Namespace: input.Namespace, Name: input.Name}).Run(ctx)
}

func writeOperand(ctx context.Context, user *session.Session, input *writeOperandInput) (*operands.OperandOutcome, error) {
	return (&operands.Write{Client: user.Client, Resource: input.toResource(), Object: input.Body.Object, DryRun: input.Body.DryRun}).Run(ctx)
}

func deleteOperand(ctx context.Context, user *session.Session, input *deleteOperandInput) (OperandDeleted, error) {
	b := &input.Body
	return OperandDeleted{}, (&operands.Delete{Client: user.Client, Resource: input.toResource(), Namespace: b.Namespace, Name: b.Name, UID: b.UID}).Run(ctx)
}

package console

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/sources"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// sourceInput selects a source.
type sourceInput struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Namespace of a CatalogSource. Empty means a ClusterCatalog."`
	Name      string `path:"name" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
}

// newSourceInput is a new source.
type newSourceInput struct {
	Body struct {
		Namespace   string `json:"namespace,omitempty" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Namespace of a CatalogSource. Empty means a ClusterCatalog."`
		Name        string `json:"name" minLength:"1" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
		Image       string `json:"image" minLength:"1" maxLength:"1000"`
		DisplayName string `json:"displayName,omitempty" maxLength:"253"`
		Publisher   string `json:"publisher,omitempty" maxLength:"253"`
		Priority    int    `json:"priority,omitempty" minimum:"-2147483648" maximum:"2147483647"`
		PollMinutes int    `json:"pollMinutes,omitempty" minimum:"0" maximum:"10080"`
	}
}

// sourceSettingsInput are changed settings of a source.
type sourceSettingsInput struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Namespace of a CatalogSource. Empty means a ClusterCatalog."`
	Name      string `path:"name" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
	Body      struct {
		Revision    string  `json:"revision" maxLength:"100"`
		Image       *string `json:"image,omitempty" minLength:"1" maxLength:"1000"`
		Priority    *int    `json:"priority,omitempty" minimum:"-2147483648" maximum:"2147483647"`
		PollMinutes *int    `json:"pollMinutes,omitempty" minimum:"0" maximum:"10080"`
		Enabled     *bool   `json:"enabled,omitempty"`
	}
}

// deletionInput is the deletion of a source.
type deletionInput struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^[a-z0-9-]*$" doc:"Namespace of a CatalogSource. Empty means a ClusterCatalog."`
	Name      string `path:"name" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
	Body      struct {
		Typed    string `json:"typed,omitempty" maxLength:"253" doc:"What the person has typed to confirm."`
		Revision string `json:"revision,omitempty" maxLength:"100"`
	}
}

// defaultInput enables or disables a default catalog.
type defaultInput struct {
	Name string `path:"name" maxLength:"253" pattern:"^[a-z0-9][a-z0-9.-]*$"`
	Body struct {
		Enabled  bool   `json:"enabled"`
		Revision string `json:"revision,omitempty" maxLength:"100" doc:"Revision of the OperatorHub."`
	}
}

// Done is the response of a write without a result.
type Done struct {
	Message string `json:"message"`
}

// registerSources adds the operations about where packages come from, and who may use them.
func registerSources(api huma.API) {
	get(api, "listSources", "/sources", "Catalogs of both systems",
		func(ctx context.Context, user *session.Session, input *namespaceInput) (sources.Listing, error) {
			return (&sources.List{Client: user.Client, Namespace: input.Namespace}).Run(ctx), ctx.Err()
		})
	registerPost(api, "addSource", "/sources", "Add a catalog", addSource)
	registerPost(api, "changeSource", "/sources/{name}/settings", "Change a catalog", changeSource)
	registerPost(api, "refreshSource", "/sources/{name}/refresh", "Look for a new content of a ClusterCatalog now", refreshSource)
	get(api, "planSourceDeletion", "/sources/{name}/deletion", "What the deletion of a catalog means", planSourceDeletion)
	registerPost(api, "deleteSource", "/sources/{name}/deletion", "Delete a catalog", deleteSource)
	registerPost(api, "enableDefaultSource", "/default-sources/{name}", "Enable or disable a default catalog of the OperatorHub", enableDefaultSource)
	get(api, "listTenants", "/tenants", "OperatorGroups, and what their operators manage",
		func(ctx context.Context, user *session.Session, input *namespaceInput) (sources.Tenants, error) {
			return (&sources.ListTenants{Client: user.Client, Namespace: input.Namespace}).Run(ctx), ctx.Err()
		})
	get(api, "getTenantAccess", "/tenants/{name}/access", "Who may do what with the operators of a namespace",
		func(ctx context.Context, user *session.Session, input *nameInput) (sources.NamespaceAccess, error) {
			return (&sources.ReadAccess{Client: user.Client, Namespace: input.Name}).Run(ctx), ctx.Err()
		})
}

func addSource(ctx context.Context, user *session.Session, input *newSourceInput) (Done, error) {
	b := &input.Body
	add := &sources.Add{
		Client: user.Client, Namespace: b.Namespace, Name: b.Name, Image: b.Image, DisplayName: b.DisplayName, Publisher: b.Publisher, Priority: b.Priority, PollMinutes: b.PollMinutes,
	}
	return Done{Message: "Catalog " + b.Name + " is added"}, add.Run(ctx)
}

func changeSource(ctx context.Context, user *session.Session, input *sourceSettingsInput) (Done, error) {
	b := &input.Body
	change := &sources.Change{
		Client: user.Client, Namespace: input.Namespace, Name: input.Name, Revision: b.Revision,
		Settings: sources.Settings{Image: b.Image, Priority: b.Priority, PollMinutes: b.PollMinutes, IsEnabled: b.Enabled},
	}
	return Done{Message: "Catalog " + input.Name + " is changed"}, change.Run(ctx)
}

func refreshSource(ctx context.Context, user *session.Session, input *sourceInput) (Done, error) {
	if input.Namespace != "" {
		return Done{}, newProblem(http.StatusUnprocessableEntity, "A CatalogSource is polled only at its interval.", "Shorten the interval.")
	}
	refresh := &action.CatalogRefresh{Client: user.Client, Name: input.Name, Now: time.Now()}
	return Done{Message: "The image of catalog " + input.Name + " is looked up again"}, refresh.Run(ctx)
}

func planSourceDeletion(ctx context.Context, user *session.Session, input *sourceInput) (sources.DeletionPlan, error) {
	plan, err := (&sources.Delete{Client: user.Client, Namespace: input.Namespace, Name: input.Name}).Plan(ctx)
	if err != nil {
		return sources.DeletionPlan{}, err
	}
	return *plan, nil
}

func deleteSource(ctx context.Context, user *session.Session, input *deletionInput) (Done, error) {
	b := &input.Body
	remove := &sources.Delete{Client: user.Client, Namespace: input.Namespace, Name: input.Name, Typed: b.Typed, Revision: b.Revision}
	return Done{Message: "Catalog " + input.Name + " is deleted"}, remove.Run(ctx)
}

func enableDefaultSource(ctx context.Context, user *session.Session, input *defaultInput) (Done, error) {
	enable := &sources.EnableDefault{Client: user.Client, Name: input.Name, IsEnabled: input.Body.Enabled, Revision: input.Body.Revision}
	return Done{Message: "Default catalog " + input.Name + " is changed"}, enable.Run(ctx)
}

package console

import (
	"context"
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/clustercatalog"
	"github.com/mainstay-dev/mainstay/internal/action/leastprivilege"
	"github.com/mainstay-dev/mainstay/internal/console/session"
	"github.com/mainstay-dev/mainstay/internal/rbac"
)

// BundleChoice selects a bundle of a package.
type BundleChoice struct {
	Version  string   `json:"version,omitempty" maxLength:"64" doc:"A version or a range. Empty allows every version."`
	Channels []string `json:"channels,omitempty" maxItems:"256" doc:"Empty allows every channel."`
	Catalogs []string `json:"catalogs,omitempty" maxItems:"64" doc:"Names of ClusterCatalogs. Empty allows every catalog."`
	// CRDUpgradeSafety is None if changes of CRDs are not checked.
	CRDUpgradeSafety string `json:"crdUpgradeSafety,omitempty" enum:"Strict,None"`
}

// catalogSelector returns the label selector of the catalogs.
func (c *BundleChoice) catalogSelector() string {
	switch len(c.Catalogs) {
	case 0:
		return ""
	case 1:
		return olmv1.LabelMetadataName + "=" + c.Catalogs[0]
	default:
		return olmv1.LabelMetadataName + " in (" + strings.Join(c.Catalogs, ",") + ")"
	}
}

// toChoice returns the choice of a new extension: empty fields keep the defaults of the API.
func (c *BundleChoice) toChoice() action.Choice {
	var choice action.Choice
	if c.Version != "" {
		choice.Version = &c.Version
	}
	if len(c.Channels) > 0 {
		choice.Channels = &c.Channels
	}
	if selector := c.catalogSelector(); selector != "" {
		choice.CatalogSelector = &selector
	}
	if c.CRDUpgradeSafety != "" {
		choice.CRDUpgradeSafety = (*olmv1.CRDUpgradeSafetyEnforcement)(&c.CRDUpgradeSafety)
	}
	return choice
}

// ExtensionRequest is an extension to install.
type ExtensionRequest struct {
	BundleChoice

	Package         string `json:"package" minLength:"1" maxLength:"253"`
	Name            string `json:"name" maxLength:"253" pattern:"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"`
	Namespace       string `json:"namespace" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
	CreateNamespace bool   `json:"createNamespace,omitempty"`
	// ServiceAccount is an existing service account, or the name of the generated one. Empty means that of operator-controller.
	ServiceAccount string `json:"serviceAccount,omitempty" maxLength:"253" pattern:"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"`
	// GenerateAccount creates the service account with the least rights for the chosen bundle.
	GenerateAccount bool           `json:"generateAccount,omitempty"`
	Config          map[string]any `json:"config,omitempty" doc:"Configuration of the bundle."`
	// Object is a ClusterExtension whose other fields are kept, such as labels.
	Object map[string]any `json:"object,omitempty" doc:"A ClusterExtension for the fields that the request does not have. The request has precedence."`
}

type extensionRequestInput struct{ Body ExtensionRequest }

// ExtensionPreview is what an installation would do.
type ExtensionPreview struct {
	// Objects are the objects that are created, in order.
	Objects []Manifest `json:"objects"`
	// AccountRules are the rules of the generated service account.
	AccountRules []ScopedRule `json:"accountRules,omitempty"`
	PlanPreview
}

// ScopedRule is a rule of a Role in a namespace, or of a ClusterRole.
type ScopedRule struct {
	// Namespace is empty for the whole cluster.
	Namespace string            `json:"namespace,omitempty"`
	Rule      rbacv1.PolicyRule `json:"rule"`
	// FarReaching reports whether the rule can be used to gain further rights.
	FarReaching bool `json:"farReaching,omitempty"`
}

func newScopedRule(namespace string, rule rbacv1.PolicyRule) ScopedRule {
	return ScopedRule{Namespace: namespace, Rule: rule, FarReaching: rbac.IsFarReaching(&rule)}
}

// PlanPreview is the plan of a change.
type PlanPreview struct {
	// Plan is the plan of operator-controller. It is nil if the user may not read it.
	Plan *action.PlanDetails `json:"plan,omitempty"`
	// Refusal states why the change would be refused.
	Refusal  *Refusal  `json:"refusal,omitempty"`
	Messages []Message `json:"messages,omitempty"`
}

func newPlanPreview(preview *action.PlanPreview, r *recorder) (PlanPreview, error) {
	p := PlanPreview{Messages: r.messages, Refusal: newRefusal(preview.Refusal)}
	if preview.Plan == nil {
		return p, nil
	}

	var err error
	p.Plan, err = preview.Plan.Details()
	return p, err
}

// PackageRef selects a package. It is exported, because huma reads only exported embedded structs.
type PackageRef struct {
	Package string `path:"package" minLength:"1" maxLength:"253"`
}

// extensionInstaller installs extensions.
type extensionInstaller struct{ registry catalogs.Registry }

// registerExtensionInstall adds the operations that install extensions.
func registerExtensionInstall(api huma.API, registry catalogs.Registry) {
	i := &extensionInstaller{registry: registry}
	get(api, "getExtensionOffers", "/extension-offers/{package}", "What the ClusterCatalogs offer of a package",
		func(ctx context.Context, user *session.Session, input *PackageRef) (*action.OfferedPackages, error) {
			offer := &action.ExtensionOffer{Client: user.Client, Cluster: clusterOf(user), Package: input.Package}
			return offer.Run(ctx)
		})
	postPlan(api, "previewExtensionInstall", "/extension-previews", "What the installation of an extension would do", i.previewInstall)
	postPlan(api, "installExtension", "/extensions", "Install an extension", i.installExtension)
}

// clusterOf returns the configuration of the cluster with the credentials of the user.
func clusterOf(user *session.Session) func() (*rest.Config, error) {
	return func() (*rest.Config, error) { return user.Config, nil }
}

// planCheckOf returns the check of plans as the user.
func planCheckOf(user *session.Session) *action.PlanCheck {
	return &action.PlanCheck{Timeout: planTimeout - requestTimeout, Cluster: clusterOf(user)}
}

// newInstall returns the installation, with the generated service account if one is requested.
func (i *extensionInstaller) newInstall(ctx context.Context, user *session.Session, r *recorder, request *ExtensionRequest) (*action.ExtensionInstall, error) {
	install := &action.ExtensionInstall{
		Client: user.Client, Progress: r, Package: request.Package, Name: request.Name, Namespace: request.Namespace,
		CreateNamespace: request.CreateNamespace, ServiceAccount: request.ServiceAccount, Config: request.Config, Choice: request.toChoice(),
		Check: planCheckOf(user),
	}
	if len(request.Object) > 0 {
		install.Base = &olmv1.ClusterExtension{}
		if err := decodeManifest(olmv1.GroupVersion, olmv1.ClusterExtensionKind, request.Object, install.Base); err != nil {
			return nil, err
		}
	}
	if !request.GenerateAccount {
		return install, nil
	}
	if len(request.Catalogs) > 1 {
		return nil, huma.Error422UnprocessableEntity("A service account can be generated for one catalog, or for all of them.")
	}

	// Without the prefix, a name with a dot would be a folder or an image.
	catalog := ""
	if len(request.Catalogs) == 1 {
		catalog = clustercatalog.Prefix + request.Catalogs[0]
	}

	watched, _ := request.Config["watchNamespace"].(string)
	generate := &leastprivilege.Generate{
		Registry: i.registry, Progress: r, Package: request.Package, Cluster: clusterOf(user), Version: request.Version, Channels: request.Channels,
		Catalog: catalog, Name: request.Name, Namespace: request.Namespace, ServiceAccount: request.ServiceAccount, WatchNamespace: watched,
	}
	generated, err := generate.Run(ctx)
	if err != nil {
		return nil, err
	}

	for _, object := range generated.Objects {
		install.Account = append(install.Account, object.(client.Object)) //nolint:forcetypeassert // the interfaces have the same methods
	}
	install.ServiceAccount = generated.Objects[0].GetName()
	r.Done(fmt.Sprintf("the service account can install bundle %s, and other bundles only as far as they need the same rights", generated.Bundle))
	return install, nil
}

func (i *extensionInstaller) previewInstall(ctx context.Context, user *session.Session, input *extensionRequestInput) (ExtensionPreview, error) {
	r := &recorder{}
	install, err := i.newInstall(ctx, user, r, &input.Body)
	if err != nil {
		return ExtensionPreview{}, err
	}

	objects, err := install.Objects()
	if err != nil {
		return ExtensionPreview{}, err
	}
	preview := ExtensionPreview{AccountRules: collectRules(install.Account)}
	if preview.Objects, err = newManifests(objects); err != nil {
		return preview, err
	}

	found, err := install.Preview(ctx)
	if err != nil {
		return preview, err
	}
	preview.PlanPreview, err = newPlanPreview(found, r)
	return preview, err
}

// collectRules returns the rules of roles.
func collectRules(objects []client.Object) []ScopedRule {
	var rules []ScopedRule
	for _, object := range objects {
		var inRole []rbacv1.PolicyRule
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			inRole = role.Rules
		case *rbacv1.Role:
			inRole = role.Rules
		}
		for _, rule := range inRole {
			rules = append(rules, newScopedRule(object.GetNamespace(), rule))
		}
	}
	return rules
}

// Written is the result of a write.
type Written struct {
	// Name is the name of the object.
	Name     string    `json:"name"`
	Messages []Message `json:"messages,omitempty"`
}

func (i *extensionInstaller) installExtension(ctx context.Context, user *session.Session, input *extensionRequestInput) (Written, error) {
	r := &recorder{}
	install, err := i.newInstall(ctx, user, r, &input.Body)
	if err != nil {
		return Written{}, err
	}

	extension, err := install.Run(ctx)
	if err != nil {
		return Written{}, err
	}
	return Written{Name: extension.Name, Messages: r.messages}, nil
}

package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// SubscriptionRequest is an operator to install.
type SubscriptionRequest struct {
	Package         string `json:"package" minLength:"1" maxLength:"253"`
	Name            string `json:"name,omitempty" maxLength:"253" pattern:"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$" doc:"Empty means the name of the package."`
	CreateNamespace bool   `json:"createNamespace,omitempty"`
	// ClusterMonitoring is only accepted if the offer has it.
	ClusterMonitoring bool   `json:"clusterMonitoring,omitempty" doc:"The monitoring of the cluster reads the metrics of the created namespace."`
	Catalog           string `json:"catalog,omitempty" maxLength:"320" doc:"NAMESPACE/NAME of a CatalogSource."`
	Channel           string `json:"channel,omitempty" maxLength:"253"`
	StartingCSV       string `json:"startingCSV,omitempty" maxLength:"253"`
	IsManual          bool   `json:"isManual,omitempty" doc:"Installations and upgrades wait for an approval."`
	// WatchNamespaces are the namespaces of the OperatorGroup that is created. Empty means all, or the own one.
	WatchNamespaces []string       `json:"watchNamespaces,omitempty" maxItems:"100"`
	Env             []EnvVariable  `json:"env,omitempty" maxItems:"50" doc:"Variables in addition to those of config."`
	Config          map[string]any `json:"config,omitempty" doc:"spec.config of the Subscription."`
	// Object is a Subscription whose fields are used where the request has none, such as labels.
	Object map[string]any `json:"object,omitempty" doc:"A Subscription for the fields that the request does not have. The request has precedence."`
}

// EnvVariable is an environment variable of an operator.
type EnvVariable struct {
	Name  string `json:"name" maxLength:"253" pattern:"^[A-Za-z_][A-Za-z0-9_]*$"`
	Value string `json:"value" maxLength:"4096"`
}

// NamespaceRef selects a namespace. It is exported, because huma reads only exported embedded structs.
type NamespaceRef struct {
	Namespace string `path:"namespace" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
}

type subscriptionRequestInput struct {
	NamespaceRef

	Body SubscriptionRequest
}

// newInstall returns the installation. Empty variables are left out. A field that the API does not have is an error.
func (i *subscriptionRequestInput) newInstall(user *session.Session, r *recorder) (*subscription.Install, error) {
	body := &i.Body
	install := &subscription.Install{
		Client: user.Client, Progress: r, Package: body.Package, Name: body.Name, Namespace: i.Namespace, CreateNamespace: body.CreateNamespace, ClusterMonitoring: body.ClusterMonitoring,
		Catalog: body.Catalog, Channel: body.Channel, StartingCSV: body.StartingCSV, Manual: body.IsManual, WatchNamespaces: body.WatchNamespaces,
	}
	if len(body.Config) > 0 {
		install.Config = &v1alpha1.SubscriptionConfig{}
		if err := decodeStrictly("configuration", body.Config, install.Config); err != nil {
			return nil, err
		}
	}
	if len(body.Object) > 0 {
		base := &v1alpha1.Subscription{}
		if err := decodeManifest(v1alpha1.GroupVersion, v1alpha1.SubscriptionKind, body.Object, base); err != nil {
			return nil, err
		}
		completeInstall(install, base)
	}

	for _, variable := range body.Env {
		if value := strings.TrimSpace(variable.Value); value != "" {
			install.Env = append(install.Env, corev1.EnvVar{Name: variable.Name, Value: value})
		}
	}
	install.Env = append(install.Env, newAudience(install)...)
	return install, nil
}

// completeInstall sets what the request leaves open to the fields of a Subscription.
func completeInstall(install *subscription.Install, base *v1alpha1.Subscription) {
	spec := &base.Spec
	install.Base = base
	install.Name = cmp.Or(install.Name, base.Name)
	install.Channel = cmp.Or(install.Channel, spec.Channel)
	install.StartingCSV = cmp.Or(install.StartingCSV, spec.StartingCSV)
	install.Manual = install.Manual || spec.InstallPlanApproval == v1alpha1.ApprovalManual
	if install.Catalog == "" && spec.CatalogSource != "" {
		install.Catalog = strings.TrimPrefix(spec.CatalogSourceNamespace+"/"+spec.CatalogSource, "/")
	}
	if install.Config == nil {
		install.Config = spec.Config
	}
}

// newAudience returns the variable AUDIENCE, which operators with short-lived credentials of Google Cloud read, if its parts
// are among the variables of an installation and it is not.
func newAudience(install *subscription.Install) []corev1.EnvVar {
	env := install.Env
	if install.Config != nil {
		env = slices.Concat(install.Config.Env, env)
	}
	values := map[string]string{}
	for _, variable := range env {
		values[variable.Name] = variable.Value
	}

	project, pool, provider := values["PROJECT_NUMBER"], values["POOL_ID"], values["PROVIDER_ID"]
	_, isSet := values["AUDIENCE"]
	if project == "" || pool == "" || provider == "" || isSet {
		return nil
	}
	return []corev1.EnvVar{{
		Name: "AUDIENCE", Value: fmt.Sprintf("//iam.googleapis.com/projects/%s/locations/global/workloadIdentityPools/%s/providers/%s", project, pool, provider),
	}}
}

type subscriptionOfferInput struct {
	NamespaceRef
	PackageRef

	Catalog string `query:"catalog" maxLength:"320" doc:"NAMESPACE/NAME of a CatalogSource. Empty means the only one with the package."`
}

// SubscriptionPreview is what the installation of an operator would do.
type SubscriptionPreview struct {
	// Objects are the objects that are created, in order.
	Objects []Manifest `json:"objects"`
	// CSV is the version that is installed first.
	CSV string `json:"csv"`
	// CRDs and Images are those of the newest version of the channel.
	CRDs   []string `json:"crds,omitempty"`
	Images []string `json:"images,omitempty"`
	// Watches are the namespaces that the operator watches. Empty means all.
	Watches  []string `json:"watches,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// registerSubscriptionInstall adds the operations that install operators.
func registerSubscriptionInstall(api huma.API) {
	get(api, "getSubscriptionOffer", "/namespaces/{namespace}/subscription-offers/{package}", "What the CatalogSources offer of a package",
		func(ctx context.Context, user *session.Session, input *subscriptionOfferInput) (*subscription.Offer, error) {
			return (&subscription.Install{Client: user.Client, Package: input.Package, Namespace: input.Namespace, Catalog: input.Catalog}).Offer(ctx)
		})
	registerPost(api, "previewSubscriptionInstall", "/namespaces/{namespace}/subscription-previews", "What the installation of an operator would do", previewSubscription)
	registerPost(api, "installSubscription", "/namespaces/{namespace}/subscriptions", "Install an operator",
		func(ctx context.Context, user *session.Session, input *subscriptionRequestInput) (Written, error) {
			r := &recorder{}
			install, err := input.newInstall(user, r)
			if err != nil {
				return Written{}, err
			}
			sub, err := install.Run(ctx)
			if err != nil {
				return Written{}, err
			}
			return Written{Name: sub.Name, Messages: r.messages}, nil
		})
}

func previewSubscription(ctx context.Context, user *session.Session, input *subscriptionRequestInput) (SubscriptionPreview, error) {
	install, err := input.newInstall(user, &recorder{})
	if err != nil {
		return SubscriptionPreview{}, err
	}
	found, err := install.Preview(ctx)
	if err != nil {
		return SubscriptionPreview{}, err
	}

	preview := SubscriptionPreview{CSV: found.CSV, CRDs: found.CRDs, Images: found.Images, Watches: found.Watches, Warnings: found.Warnings}
	preview.Objects, err = newManifests(found.Objects)
	return preview, err
}

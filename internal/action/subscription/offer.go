package subscription

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
)

// Annotations by which the author of an operator recommends how it is installed.
const (
	annotationSuggestedNamespace         = "operatorframework.io/suggested-namespace"
	annotationSuggestedNamespaceTemplate = "operatorframework.io/suggested-namespace-template"
	annotationTokenAuthPrefix            = "features.operators.openshift.io/token-auth-"
)

// clouds are the clouds whose short-lived credentials operators may support.
var clouds = []string{"aws", "azure", "gcp"}

// Offer is what can be installed of a package in a namespace.
type Offer struct {
	Versions
	DisplayName string `json:"displayName,omitempty"`
	// Subscription is the Subscription of the namespace to the package. It is empty if there is none.
	Subscription string `json:"subscription,omitempty"`
	// DefaultNamespace is the namespace for an operator whose author recommends none.
	DefaultNamespace string `json:"defaultNamespace"`
	// NamespaceExists reports whether the namespace exists. It is true if that is unknown.
	NamespaceExists bool `json:"namespaceExists"`
	// Group is the OperatorGroup of the namespace. It is nil if there is none.
	Group *GroupState `json:"operatorGroup,omitempty"`
	// ManualSiblings are the Subscriptions of the namespace with approval Manual. Operators that depend on
	// theirs wait with them.
	ManualSiblings []string `json:"manualSiblings,omitempty"`
	// Details describe the newest version of each channel.
	Details []ChannelDetails `json:"details"`
}

// GroupState is an OperatorGroup.
type GroupState struct {
	Name string `json:"name"`
	// Targets are the namespaces that its operators watch. Empty means all.
	Targets []string `json:"targets,omitempty"`
}

// ChannelDetails describe the newest version of a channel.
type ChannelDetails struct {
	Channel string `json:"channel"`
	// Modes are the supported install modes. It is empty if the catalog does not contain them.
	Modes []v1alpha1.InstallModeType `json:"modes"`
	// Refusal states why the channel cannot be installed in any namespace. It is empty if it can.
	Refusal string `json:"refusal,omitempty"`
	// SuggestedNamespace is the namespace that the author recommends.
	SuggestedNamespace string `json:"suggestedNamespace,omitempty"`
	// ClusterMonitoring describes the monitoring of the cluster for the namespace. It is nil if that cannot be enabled.
	ClusterMonitoring *MonitoringOffer `json:"clusterMonitoring,omitempty"`
	// Clouds are the clouds whose short-lived credentials are supported: aws, azure and gcp.
	Clouds []string `json:"clouds,omitempty"`
	// CRDs are the CRDs of the operator.
	CRDs   []string `json:"crds,omitempty"`
	Images []string `json:"images,omitempty"`
}

// Offer returns what can be installed of the package. Only Client, Package, Namespace and Catalog are
// used.
func (a *Install) Offer(ctx context.Context) (*Offer, error) {
	lookup := a.packageLookup()
	pkg, err := lookup.findPackage(ctx)
	if err != nil {
		return nil, err
	}

	offer := &Offer{NamespaceExists: true, DefaultNamespace: lookup.defaultNamespace(ctx, pkg)}
	fillVersions(&offer.Versions, pkg, "")
	offer.addManualReasons()
	for i := range pkg.Status.Channels {
		channel := &pkg.Status.Channels[i]
		offer.Details = append(offer.Details, newChannelDetails(channel))
		if channel.Name == pkg.Status.DefaultChannel {
			offer.DisplayName = channel.CurrentCSVDesc.DisplayName
		}
	}

	err = a.Client.Get(ctx, client.ObjectKey{Name: a.Namespace}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		offer.NamespaceExists = false
		offer.addMonitoring(ctx, a.Client, pkg, a.Namespace)
		return offer, nil
	}
	return offer, offer.addNeighbors(ctx, a.Client, a.Namespace, a.Package)
}

// defaultNamespace returns a namespace with the name of the package, or that of the catalog if the
// package is not visible there, or if the user may not read it there.
func (l packageLookup) defaultNamespace(ctx context.Context, pkg *packagesv1.PackageManifest) string {
	catalog := pkg.Status.CatalogSourceNamespace
	there := packageLookup{client: l.client, namespace: pkg.Name, name: pkg.Name, catalog: catalog + "/" + pkg.Status.CatalogSource}
	if _, err := there.findPackage(ctx); err != nil {
		return catalog
	}
	return pkg.Name
}

// addManualReasons states for each entry but the heads why it needs approval Manual.
func (o *Offer) addManualReasons() {
	for i := range o.Channels {
		versions := o.Channels[i].Versions
		for j := range versions {
			if !versions[j].Head {
				versions[j].NeedsManual = describeOlderVersion(versions[j].Name)
			}
		}
	}
}

// describeOlderVersion states what happens to an entry that is not the head of its channel.
func describeOlderVersion(name string) string {
	return name + " is not the newest version of the channel. With approval Automatic it is upgraded at once."
}

// describeManualSiblings states what Subscriptions with approval Manual mean for another one of their
// namespace.
func describeManualSiblings(names []string) string {
	return "In the namespace, approval is Manual for " + strings.Join(names, ", ") + ". Upgrades that depend on it wait for its approval."
}

// addNeighbors adds the Subscriptions and the OperatorGroup of the namespace, as far as the user may
// read them.
func (o *Offer) addNeighbors(ctx context.Context, c client.Client, namespace, pkg string) error {
	var subs v1alpha1.SubscriptionList
	if err := c.List(ctx, &subs, client.InNamespace(namespace)); err != nil && !apierrors.IsForbidden(err) {
		return action.NewServerError("subscriptions of namespace "+namespace, err)
	}

	for i := range subs.Items {
		sub := &subs.Items[i]
		if sub.Spec.Package == pkg {
			o.Subscription = sub.Name
		}
		if sub.Spec.InstallPlanApproval == v1alpha1.ApprovalManual {
			o.ManualSiblings = append(o.ManualSiblings, sub.Name)
		}
	}

	var groups operatorsv1.OperatorGroupList
	if err := c.List(ctx, &groups, client.InNamespace(namespace)); err != nil && !apierrors.IsForbidden(err) {
		return action.NewServerError("operatorgroups of namespace "+namespace, err)
	}
	if len(groups.Items) > 0 {
		o.Group = &GroupState{Name: groups.Items[0].Name, Targets: groups.Items[0].Spec.TargetNamespaces}
	}

	return nil
}

// newChannelDetails returns the details of a channel. Malformed annotations are ignored.
func newChannelDetails(channel *packagesv1.PackageChannel) ChannelDetails {
	desc := &channel.CurrentCSVDesc
	d := ChannelDetails{Channel: channel.Name, Modes: supportedModes(channel), SuggestedNamespace: suggestNamespace(desc.Annotations).Name, Images: desc.RelatedImages}
	if err := refuseModes(channel); err != nil {
		d.Refusal = err.Error() + "."
	}
	for _, cloud := range clouds {
		if desc.Annotations[annotationTokenAuthPrefix+cloud] == "true" {
			d.Clouds = append(d.Clouds, cloud)
		}
	}
	for _, crd := range desc.CustomResourceDefinitions.Owned {
		d.CRDs = append(d.CRDs, crd.Name)
	}
	slices.Sort(d.CRDs)
	d.CRDs = slices.Compact(d.CRDs)
	return d
}

// suggestNamespace returns the namespace that the author of an operator recommends, with the labels and annotations of the
// template. The name is empty if there is none. A malformed template is ignored, and the name of a template has precedence.
func suggestNamespace(annotations map[string]string) metav1.ObjectMeta {
	var template corev1.Namespace
	if err := json.Unmarshal([]byte(annotations[annotationSuggestedNamespaceTemplate]), &template); err != nil {
		template = corev1.Namespace{}
	}

	suggested := metav1.ObjectMeta{Name: template.Name, Labels: template.Labels, Annotations: template.Annotations}
	if suggested.Name == "" {
		suggested.Name = annotations[annotationSuggestedNamespace]
	}
	return suggested
}

// InstallPreview is what an installation would do.
type InstallPreview struct {
	// Objects are the objects that are created, in order.
	Objects []client.Object
	// CSV is the version that is installed first. CRDs and Images are those of the newest version of
	// the channel.
	CSV    string
	CRDs   []string
	Images []string
	// Watches are the namespaces that the operator watches. Empty means all.
	Watches []string
	// Warnings are sentences about effects that are easily overlooked.
	Warnings []string
}

// Preview returns what Run would do, or the error by which Run would refuse. It writes nothing.
func (a *Install) Preview(ctx context.Context) (*InstallPreview, error) {
	objects, err := a.Objects(ctx)
	if err != nil {
		return nil, err
	}
	sub := objects[len(objects)-1].(*v1alpha1.Subscription)
	if err := a.checkObjects(ctx, objects); err != nil {
		return nil, err
	}

	offer, err := a.Offer(ctx)
	if err != nil {
		return nil, err
	}

	p := &InstallPreview{Objects: objects, Warnings: offer.warn(sub, a.Namespace)}
	p.Watches = offer.watchedNamespaces(objects)
	at := slices.IndexFunc(offer.Details, func(d ChannelDetails) bool { return d.Channel == sub.Spec.Channel })
	p.CRDs, p.Images = offer.Details[at].CRDs, offer.Details[at].Images
	p.CSV = sub.Spec.StartingCSV
	for _, v := range offer.Channels[at].Versions {
		if p.CSV == "" && v.Head {
			p.CSV = v.Name
		}
	}

	return p, nil
}

// watchedNamespaces returns the namespaces that operators of the namespace watch.
func (o *Offer) watchedNamespaces(created []client.Object) []string {
	for _, object := range created {
		if group, ok := object.(*operatorsv1.OperatorGroup); ok {
			return group.Spec.TargetNamespaces
		}
	}
	if o.Group != nil {
		return o.Group.Targets
	}
	return nil
}

// warn returns warnings about a new Subscription.
func (o *Offer) warn(sub *v1alpha1.Subscription, namespace string) []string {
	var warnings []string
	at := slices.IndexFunc(o.Channels, func(c ChannelVersions) bool { return c.Name == sub.Spec.Channel })
	channel := &o.Channels[at]
	if channel.Deprecated != "" {
		warnings = append(warnings, "Channel "+channel.Name+" is deprecated: "+channel.Deprecated)
	}

	isManual := sub.Spec.InstallPlanApproval == v1alpha1.ApprovalManual
	for _, v := range channel.Versions {
		if v.Deprecated != "" && (v.Name == sub.Spec.StartingCSV || v.Head && sub.Spec.StartingCSV == "") {
			warnings = append(warnings, v.Name+" is deprecated: "+v.Deprecated)
		}
		if v.Name == sub.Spec.StartingCSV && !v.Head && !isManual {
			warnings = append(warnings, describeOlderVersion(v.Name))
		}
	}

	if suggested := o.Details[at].SuggestedNamespace; suggested != "" && suggested != namespace {
		warnings = append(warnings, "The author of the operator recommends namespace "+suggested+".")
	}
	switch {
	case !isManual && len(o.ManualSiblings) > 0:
		warnings = append(warnings, describeManualSiblings(o.ManualSiblings))
	case isManual:
		warnings = append(warnings, "With approval Manual, each installation and upgrade of the operator waits for an approval. Operators that depend on it wait with it.")
	}

	return warnings
}

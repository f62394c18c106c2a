package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// AnnotationMigratedFrom is the annotation of a ClusterExtension with the Subscription that it was
// migrated from, as namespace/name.
const AnnotationMigratedFrom = "olm.operatorframework.io/migrated-from-subscription"

// OwnerLabels returns the labels by which the revisions of an extension recognize its objects.
func OwnerLabels(extension string) map[string]string {
	return map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: extension}
}

// renderOptions returns the options for rendering the bundle as the extension renders it.
func renderOptions(f *Facts, config render.Config) render.Options {
	return render.Options{
		InstallNamespace: f.installNamespace(), WatchNamespace: config.WatchNamespace, DeploymentConfig: config.DeploymentConfig, Issuer: f.Issuer,
	}
}

// newConfig returns the configuration of the extension: the one namespace that the OperatorGroup
// selects, and the configuration of the Subscription.
func newConfig(f *Facts) render.Config {
	var config render.Config
	if targets := f.targetNamespaces(); len(targets) == 1 && !selectsByLabels(f.operatorGroup()) {
		config.WatchNamespace = targets[0]
	}
	if f.Subscription.Spec.Config != nil {
		config.DeploymentConfig = f.Subscription.Spec.Config.DeepCopy()
		// OLM Classic ignores the selector as well.
		config.DeploymentConfig.Selector = nil
	}
	return config
}

// newExtension returns the ClusterExtension that takes over the operator. It is pinned to the
// installed version until the migration is confirmed, so that its first revision changes nothing.
func newExtension(f *Facts, o Options) (*olmv1.ClusterExtension, error) {
	filter := &olmv1.CatalogFilter{
		PackageName: f.Subscription.Spec.Package, Version: f.Bundle.Version.String(),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{olmv1.LabelMetadataName: f.bestOffer().Catalog}},
	}
	if channel := channelOf(f); channel != "" {
		filter.Channels = []string{channel}
	}

	ext := &olmv1.ClusterExtension{
		TypeMeta: metav1.TypeMeta{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterExtensionKind},
		ObjectMeta: metav1.ObjectMeta{
			Name:        extensionName(f, o),
			Annotations: map[string]string{AnnotationMigratedFrom: f.installNamespace() + "/" + f.Subscription.Name},
		},
		Spec: olmv1.ClusterExtensionSpec{
			Namespace: f.installNamespace(),
			Source:    olmv1.SourceConfig{SourceType: olmv1.ExtensionSourceTypeCatalog, Catalog: filter},
		},
	}
	if f.Issuer == render.IssuerClassic {
		ext.Annotations[olmv1.AnnotationServingSecrets] = olmv1.ServingSecretsClassic
	}
	if o.ServiceAccount != "" {
		ext.Spec.ServiceAccount = &olmv1.ServiceAccountReference{Name: o.ServiceAccount}
	}

	config := newConfig(f)
	if config.WatchNamespace == "" && config.DeploymentConfig == nil {
		return ext, nil
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of the extension: %w", err)
	}
	ext.Spec.Config = &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ExtensionConfigTypeInline, Inline: &apiextensionsv1.JSON{Raw: raw}}

	return ext, nil
}

// channelOf returns the channel of the extension: that of the Subscription, or the default channel
// of the package.
func channelOf(f *Facts) string {
	if f.Subscription.Spec.Channel != "" {
		return f.Subscription.Spec.Channel
	}
	return f.bestOffer().DefaultChannel
}

// PinnedForever reports whether the extension stays at its version after the migration is
// confirmed, because updates of the Subscription needed approval.
func PinnedForever(s *v1alpha1.Subscription) bool {
	return s.Spec.InstallPlanApproval == v1alpha1.ApprovalManual
}

// checkNames refuses names that are taken.
func checkNames(f *Facts, o Options) []Finding {
	name := extensionName(f, o)
	remedy := "choose another name with --extension, or remove it"
	var findings []Finding
	for i := range f.Extensions {
		ext := &f.Extensions[i]
		text := describe("ClusterExtension", "", ext.Name)
		switch {
		case ext.Annotations[AnnotationMigratedFrom] == f.installNamespace()+"/"+f.Subscription.Name:
			findings = append(findings, newBlocker("Conflict", text, "remove either the extension or the Subscription", "it was migrated from this Subscription"))
		case ext.Name == name:
			findings = append(findings, newBlocker("Name", text, remedy, "it exists already"))
		case ext.Spec.Source.Catalog != nil && ext.Spec.Source.Catalog.PackageName == f.Subscription.Spec.Package:
			findings = append(findings, newBlocker("Conflict", text, "remove either the extension or the Subscription", "it also installs package %s", f.Subscription.Spec.Package))
		}
	}

	for i := range f.Revisions {
		if set := &f.Revisions[i]; set.Labels[olmv1.LabelOwnerName] == name || set.Name == name+"-1" {
			findings = append(findings, newBlocker("Name", describe("ClusterObjectSet", "", set.Name), remedy, "it is a revision of an extension of the name %s", name))
		}
	}

	return findings
}

// checkCatalog refuses a bundle that no ClusterCatalog serves, and warns about the channel.
func checkCatalog(f *Facts, _ Options) []Finding {
	if f.bestOffer() == nil {
		return []Finding{newBlocker("Catalog", f.csvText(), catalogRemedy(f), "no serving ClusterCatalog contains it in package %s", f.Subscription.Spec.Package)}
	}
	if f.BundleError != nil {
		return []Finding{newBlocker("Bundle", f.csvText(), "check that this machine can pull the image "+f.bestOffer().Image, "its bundle cannot be read: %v", f.BundleError)}
	}

	channel := f.Subscription.Spec.Channel
	switch {
	case channel == "" && f.bestOffer().DefaultChannel == "":
		return []Finding{newWarning("Channel", f.subscriptionText(), "set spec.source.catalog.channels of the extension", "it names no channel, and the package has no default channel: all channels are used")}
	case channel == "":
		return []Finding{newWarning("Channel", f.subscriptionText(), "", "it names no channel: the extension uses the default channel %s", f.bestOffer().DefaultChannel)}
	case !slices.Contains(f.bestOffer().Channels, channel):
		return []Finding{newBlocker("Channel", f.subscriptionText(), "change the channel of the Subscription, or serve a catalog that has the bundle in this channel",
			"channel %s of ClusterCatalog %s does not contain %s", channel, f.bestOffer().Catalog, f.Subscription.Status.InstalledCSV)}
	}
	return nil
}

// catalogRemedy returns how the catalog of the Subscription becomes a ClusterCatalog.
func catalogRemedy(f *Facts) string {
	source := f.CatalogSource
	switch {
	case source == nil:
		return "create a ClusterCatalog with an image that contains the bundle"
	case source.Spec.Image != "":
		return "create a ClusterCatalog with the image " + source.Spec.Image
	default:
		return fmt.Sprintf("publish the content of CatalogSource %s/%s as a catalog image, and create a ClusterCatalog with it", source.Namespace, source.Name)
	}
}

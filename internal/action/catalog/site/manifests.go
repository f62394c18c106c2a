package site

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/hub"
)

// manifest is a file that installs a package.
type manifest struct {
	// Kind is ClusterExtension or Subscription.
	Kind string `json:"kind"`
	File string `json:"file"`
	YAML string `json:"yaml"`
}

// newManifests returns the manifests that install a package with OLM v1 and with OLM Classic.
func (a *Write) newManifests(p *hub.PackageDetails) ([]manifest, error) {
	namespace := namespaceOf(p)
	watched := ""
	if len(p.InstallModes) > 0 && !slices.Contains(p.InstallModes, string(v1alpha1.InstallModeTypeAllNamespaces)) {
		watched = namespace
	}

	install := &action.ExtensionInstall{Name: toLabel(p.Name), Package: p.Name, Namespace: namespace, CreateNamespace: true, WatchNamespace: watched}
	extension, err := install.Objects()
	if err != nil {
		return nil, err
	}

	extensionYAML, err := writeObjects(extension)
	if err != nil {
		return nil, err
	}
	subscriptionYAML, err := writeObjects(a.newSubscription(p, namespace, watched))
	if err != nil {
		return nil, err
	}
	manifests := []manifest{
		{Kind: "ClusterExtension", File: "clusterextension.yaml", YAML: extensionYAML},
		{Kind: v1alpha1.SubscriptionKind, File: "subscription.yaml", YAML: subscriptionYAML},
	}
	if p.Refuse("", true) != "" { // OLM v1 does not know its install modes
		return manifests[1:], nil
	}
	return manifests, nil
}

// newSubscription returns the objects of OLM Classic that install a package.
func (a *Write) newSubscription(p *hub.PackageDetails, namespace, watched string) []client.Object {
	sourceNamespace, source, ok := strings.Cut(a.CatalogSource, "/")
	if !ok {
		sourceNamespace, source = "olm", cmp.Or(a.CatalogSource, toLabel(a.Name))
	}

	group := &operatorsv1.OperatorGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: operatorsv1.GroupVersion.String(), Kind: operatorsv1.OperatorGroupKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: toLabel(p.Name)},
	}
	if watched != "" {
		group.Spec.TargetNamespaces = []string{watched}
	}
	return []client.Object{
		&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		group,
		&v1alpha1.Subscription{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SubscriptionKind},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: toLabel(p.Name)},
			Spec:       v1alpha1.SubscriptionSpec{CatalogSource: source, CatalogSourceNamespace: sourceNamespace, Package: p.Name, Channel: p.DefaultChannel},
		},
	}
}

// namespaceOf returns the namespace that the author suggests, or one with the name of the package.
func namespaceOf(p *hub.PackageDetails) string {
	if len(p.Releases) > 0 && len(validation.IsDNS1123Label(p.Releases[0].SuggestedNamespace)) == 0 {
		return p.Releases[0].SuggestedNamespace
	}
	return toLabel(p.Name)
}

// toLabel returns a name with the characters that names of namespaces may have.
func toLabel(name string) string {
	label := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return cmp.Or(strings.Trim(label[:min(len(label), validation.DNS1123LabelMaxLength)], "-"), "package")
}

// writeObjects returns objects as YAML documents without empty fields.
func writeObjects(objects []client.Object) (string, error) {
	var documents []string
	for _, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return "", err
		}
		delete(content, "status")
		if metadata, ok := content["metadata"].(map[string]any); ok {
			delete(metadata, "creationTimestamp")
		}
		if spec, ok := content["spec"].(map[string]any); ok && len(spec) == 0 {
			delete(content, "spec")
		}
		text, err := yaml.Marshal(content)
		if err != nil {
			return "", err
		}
		documents = append(documents, string(text))
	}
	return strings.Join(documents, "---\n"), nil
}

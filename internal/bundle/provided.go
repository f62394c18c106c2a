package bundle

import (
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// listCatalogCRDs returns the CRDs among the Manifests, which are the ones that catalogs
// see.
func (b *Bundle) listCatalogCRDs() []unstructured.Unstructured {
	var crds []unstructured.Unstructured
	for _, manifest := range b.Manifests {
		if manifest.GetKind() == kindCRD {
			crds = append(crds, manifest)
		}
	}
	return crds
}

// providedAPI is an API in the terms of a CSV or a CRD.
type providedAPI struct{ group, version, kind, plural string }

func (a providedAPI) String() string {
	return fmt.Sprintf("%s/%s/%s (%s)", a.group, a.version, a.kind, a.plural)
}

// checkProvidedAPIs returns an error for a CRD that the CSV owns and that is not among the
// bundle's manifests in a catalog.
func (b *Bundle) checkProvidedAPIs() error {
	found := map[providedAPI]struct{}{}
	for _, crd := range b.listCatalogCRDs() {
		if err := checkCRDDecodes(crd); err != nil {
			return err
		}
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		for _, gvk := range gvksOfCRD(crd) {
			found[providedAPI{gvk.Group, gvk.Version, gvk.Kind, plural}] = struct{}{}
		}
	}

	for _, api := range b.CSV.Spec.APIServiceDefinitions.Owned {
		found[providedAPI{api.Group, api.Version, api.Kind, api.Name}] = struct{}{}
	}

	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		plural, group, err := splitCRDName(owned.Name)
		if err != nil {
			return err
		}
		api := providedAPI{group, owned.Version, owned.Kind, plural}
		if _, ok := found[api]; !ok {
			return fmt.Errorf("couldn't find %v in bundle. found: %v", api, found)
		}
	}

	return nil
}

// checkCRDDecodes returns an error if a CRD of version v1 or v1beta1 cannot be decoded.
// Other versions are not checked.
func checkCRDDecodes(crd unstructured.Unstructured) error {
	var into any
	switch crd.GetAPIVersion() {
	case apiextensionsv1.SchemeGroupVersion.String():
		into = &apiextensionsv1.CustomResourceDefinition{}
	case apiextensionsv1beta1.SchemeGroupVersion.String():
		into = &apiextensionsv1beta1.CustomResourceDefinition{}
	default:
		return nil
	}

	raw, err := json.Marshal(crd.Object)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
	}
	if err != nil {
		return fmt.Errorf("error decoding %s CRD: %w", crd.GroupVersionKind().Version, err)
	}

	return nil
}

// splitCRDName splits the name of a CRD into plural and group.
func splitCRDName(name string) (plural, group string, err error) {
	plural, group, found := strings.Cut(name, ".")
	if !found {
		return "", "", fmt.Errorf("couldn't parse plural.group from crd name: %s", name)
	}
	return plural, group, nil
}

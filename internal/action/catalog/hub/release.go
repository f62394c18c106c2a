package hub

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// release is a version as its ClusterServiceVersion describes it.
type release struct {
	bundle.CSVMetadata

	// icon is that of the ClusterServiceVersion, which only catalogs with whole manifests have.
	icon   fbc.Icon
	images []string
}

// readRelease returns the description of a bundle. A bundle without a description, or with a malformed one, has an empty
// one: its package is shown all the same.
func readRelease(b *fbc.Bundle) *release {
	r := &release{}
	for _, image := range b.RelatedImages {
		r.images = append(r.images, image.Image)
	}
	r.images = cleanTexts(r.images)

	for _, property := range b.Properties {
		switch property.Type {
		case fbc.PropertyCSVMetadata:
			var metadata bundle.CSVMetadata
			if json.Unmarshal(property.Value, &metadata) == nil {
				r.CSVMetadata = metadata
			}
			return r
		case fbc.PropertyBundleObject:
			if r.readObject(property.Value) {
				return r
			}
		}
	}
	return r
}

// readObject reads a manifest of a bundle. It reports whether it is the ClusterServiceVersion.
func (r *release) readObject(value json.RawMessage) bool {
	var object bundle.ObjectProperty
	if json.Unmarshal(value, &object) != nil || !bytes.Contains(object.Data, []byte(v1alpha1.ClusterServiceVersionKind)) {
		return false
	}

	var csv v1alpha1.ClusterServiceVersion
	if yaml.Unmarshal(object.Data, &csv) != nil || csv.Kind != v1alpha1.ClusterServiceVersionKind {
		return false
	}

	spec := &csv.Spec
	r.CSVMetadata = bundle.CSVMetadata{
		Annotations: csv.Annotations, Labels: csv.Labels, APIServiceDefinitions: spec.APIServiceDefinitions, CustomResourceDefinitions: spec.CustomResourceDefinitions,
		Description: spec.Description, DisplayName: spec.DisplayName, InstallModes: spec.InstallModes, Keywords: spec.Keywords, Links: spec.Links,
		Maintainers: spec.Maintainers, Maturity: spec.Maturity, MinKubeVersion: spec.MinKubeVersion, Provider: spec.Provider,
	}
	if len(spec.Icon) > 0 {
		r.icon = decodeIcon(spec.Icon[0])
	}
	return true
}

// decodeIcon returns the icon of a ClusterServiceVersion. It has no data if they are not base64.
func decodeIcon(icon v1alpha1.Icon) fbc.Icon {
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(icon.Data), ""))
	if err != nil {
		return fbc.Icon{}
	}
	return fbc.Icon{Data: data, MediaType: icon.MediaType}
}

// isHidden reports whether the author or the catalog wants the package not to be offered.
func (r *release) isHidden() bool {
	return r.Annotations[annotationType] == typeNonStandalone || r.Labels[labelVisibility] == "hidden"
}

// describe sets the fields of a summary that the newest version describes.
func (r *release) describe(s *PackageSummary) {
	s.DisplayName, s.Provider = cleanText(r.DisplayName), cleanText(cmp.Or(r.Provider.Name, s.Provider))
	s.Description = cleanText(cmp.Or(r.Annotations[annotationDescription], s.Description, firstParagraph(r.Description)))
	s.Categories, s.Keywords = parseCategories(r.Annotations[annotationCategories]), cleanTexts(r.Keywords)
	s.Capability, s.Features = parseCapability(r.Annotations[annotationCapabilities]), parseFeatures(r.Annotations)
	s.tokenAuth = parseTokenAuth(r.Annotations)
	s.ValidSubscriptions = parseList(r.Annotations[annotationValidSubscription])
	s.InstallModes, s.Architectures = supportedInstallModes(r.InstallModes), supportedByLabels(r.Labels, labelArchitecture, "amd64")
	s.operatingSystems = supportedByLabels(r.Labels, labelOperatingSystem, "linux")
	for _, api := range r.providedAPIs() {
		s.Kinds = append(s.Kinds, api.Kind)
	}
	s.Kinds = cleanTexts(s.Kinds)
}

func supportedInstallModes(modes []v1alpha1.InstallMode) []string {
	var names []string
	for _, mode := range modes {
		if mode.Supported {
			names = append(names, string(mode.Type))
		}
	}
	return cleanTexts(names)
}

// supportedByLabels returns the values that labels with a prefix declare as supported. Without such a label, it returns only
// the value that is supported by convention.
func supportedByLabels(labels map[string]string, prefix, convention string) []string {
	var names []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if name, ok := strings.CutPrefix(key, prefix); ok && labels[key] == "supported" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{convention}
	}
	return cleanTexts(names)
}

// firstParagraph returns the first lines of Markdown that are no heading, without the most common markup.
func firstParagraph(markdown string) string {
	for paragraph := range strings.SplitSeq(markdown[:min(len(markdown), 4<<10)], "\n\n") {
		paragraph = strings.TrimSpace(paragraph)
		if paragraph != "" && !strings.HasPrefix(paragraph, "#") && !strings.HasPrefix(paragraph, "!") && !strings.HasPrefix(paragraph, "<") {
			return strings.NewReplacer("**", "", "`", "", "__", "").Replace(paragraph)
		}
	}
	return ""
}

// newDetails returns the description of the version for people.
func (r *release) newDetails(name string) ReleaseDetails {
	d := ReleaseDetails{
		Bundle: name, DisplayName: cleanText(r.DisplayName), Description: excerpt.Start(r.Description, maxDescription), Maturity: cleanText(r.Maturity),
		Provider: PackageLink{Name: cleanText(r.Provider.Name), URL: cleanAddress(r.Provider.URL)},
		Created:  cleanText(r.Annotations[annotationCreated]), Repository: cleanAddress(r.Annotations[annotationRepository]),
		ContainerImage: cleanText(r.Annotations[annotationContainerImage]), Support: cleanText(r.Annotations[annotationSupport]),
		Capability: parseCapability(r.Annotations[annotationCapabilities]), Features: parseFeatures(r.Annotations), TokenAuth: parseTokenAuth(r.Annotations),
		Provides: r.providedAPIs(), Requires: r.requiredAPIs(), Images: r.images, Examples: parseExamples(r.Annotations[annotationExamples]),
		SuggestedNamespace: cleanText(r.Annotations[annotationSuggestedNamespace]),
	}
	for _, link := range r.Links[:min(len(r.Links), maxItems)] {
		if address := cleanAddress(link.URL); address != "" {
			d.Links = append(d.Links, PackageLink{Name: cmp.Or(cleanText(link.Name), address), URL: address})
		}
	}
	for _, person := range r.Maintainers[:min(len(r.Maintainers), maxItems)] {
		d.Maintainers = append(d.Maintainers, Maintainer{Name: cleanText(person.Name), Email: cleanText(person.Email)})
	}
	return d
}

// providedAPIs returns the APIs that the version provides to users, without the internal ones.
func (r *release) providedAPIs() []ProvidedAPI {
	internal := parseList(r.Annotations[annotationInternalObjects])
	owned := slices.DeleteFunc(slices.Clone(r.CustomResourceDefinitions.Owned), func(d v1alpha1.CRDDescription) bool {
		return slices.Contains(internal, d.Name)
	})
	return listAPIs(owned, r.APIServiceDefinitions.Owned)
}

func (r *release) requiredAPIs() []ProvidedAPI {
	return listAPIs(r.CustomResourceDefinitions.Required, r.APIServiceDefinitions.Required)
}

func listAPIs(crds []v1alpha1.CRDDescription, services []v1alpha1.APIServiceDescription) []ProvidedAPI {
	var apis []ProvidedAPI
	for _, crd := range crds[:min(len(crds), maxItems)] {
		_, group, _ := strings.Cut(crd.Name, ".")
		apis = append(apis, ProvidedAPI{
			Group: cleanText(group), Version: cleanText(crd.Version), Kind: cleanText(crd.Kind), DisplayName: cleanText(crd.DisplayName), Description: cleanText(crd.Description),
		})
	}
	for _, service := range services[:min(len(services), maxItems)] {
		apis = append(apis, ProvidedAPI{
			Group: cleanText(service.Group), Version: cleanText(service.Version), Kind: cleanText(service.Kind),
			DisplayName: cleanText(service.DisplayName), Description: cleanText(service.Description),
		})
	}
	return apis
}

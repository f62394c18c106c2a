package csvinfo

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// APIs is a set of APIs.
type APIs = sets.Set[schema.GroupVersionKind]

// apiLabelPrefix is the prefix of labels for the APIs that a CSV provides and requires.
const apiLabelPrefix = "olm.api."

// Values of API labels.
const (
	APIProvided = "provided"
	APIRequired = "required"
)

// FormatAPI returns an API in the format of OperatorGroups: Kind.version.group.
func FormatAPI(api schema.GroupVersionKind) string {
	return api.Kind + "." + api.Version + "." + api.Group
}

// JoinAPIs returns APIs in the format of an OperatorGroup's annotation: sorted and separated by
// commas.
func JoinAPIs(apis APIs) string {
	texts := make([]string, 0, len(apis))
	for api := range apis {
		texts = append(texts, FormatAPI(api))
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

// ParseAPIs parses a list in the format of Join. Entries that are not an API are ignored, because
// users may have written them.
func ParseAPIs(text string) APIs {
	apis := APIs{}
	for word := range strings.SplitSeq(text, ",") {
		kind, rest, _ := strings.Cut(strings.TrimSpace(word), ".")
		version, group, ok := strings.Cut(rest, ".")
		if ok && kind != "" && version != "" && group != "" {
			apis.Insert(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
		}
	}

	return apis
}

// APIHash returns a short name of an API for label keys: the 64-bit FNV-1a hash of its text in
// hexadecimal.
func APIHash(api schema.GroupVersionKind) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(FormatAPI(api))) // a hash takes everything
	return strconv.FormatUint(h.Sum64(), 16)
}

// APILabel returns the label key of CSVs that provide or require an API.
func APILabel(api schema.GroupVersionKind) string { return apiLabelPrefix + APIHash(api) }

// ProvidedAPIs returns the APIs that a CSV owns. It returns an error if the name of a CRD has no
// group.
func ProvidedAPIs(csv *v1alpha1.ClusterServiceVersion) (APIs, error) {
	return collectDescribedAPIs(csv.Spec.CustomResourceDefinitions.Owned, csv.Spec.APIServiceDefinitions.Owned)
}

// RequiredAPIs returns the APIs that a CSV requires from others. It returns an error if the name of
// a CRD has no group.
func RequiredAPIs(csv *v1alpha1.ClusterServiceVersion) (APIs, error) {
	return collectDescribedAPIs(csv.Spec.CustomResourceDefinitions.Required, csv.Spec.APIServiceDefinitions.Required)
}

func collectDescribedAPIs(crds []v1alpha1.CRDDescription, services []v1alpha1.APIServiceDescription) (APIs, error) {
	apis := APIs{}
	for _, crd := range crds {
		_, group, ok := strings.Cut(crd.Name, ".")
		if !ok || group == "" {
			return nil, fmt.Errorf("the CustomResourceDefinition %q has no group in its name: it must be <plural>.<group>", crd.Name)
		}
		apis.Insert(schema.GroupVersionKind{Group: group, Version: crd.Version, Kind: crd.Kind})
	}

	for _, service := range services {
		apis.Insert(schema.GroupVersionKind{Group: service.Group, Version: service.Version, Kind: service.Kind})
	}
	return apis, nil
}

// APILabels returns the API labels that a CSV should have. An API that it provides is not
// labelled as required.
func APILabels(csv *v1alpha1.ClusterServiceVersion) (map[string]string, error) {
	provided, err := ProvidedAPIs(csv)
	if err != nil {
		return nil, err
	}

	required, err := RequiredAPIs(csv)
	if err != nil {
		return nil, err
	}

	labels := map[string]string{}
	for api := range required {
		labels[APILabel(api)] = APIRequired
	}

	for api := range provided {
		labels[APILabel(api)] = APIProvided
	}

	return labels, nil
}

// IsAPILabel reports whether a label key belongs to an API.
func IsAPILabel(key string) bool { return strings.HasPrefix(key, apiLabelPrefix) }

// APIServiceName returns the name of the APIService for a version of a group.
func APIServiceName(d v1alpha1.APIServiceDescription) string { return d.Version + "." + d.Group }

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

// APIs is a set of kinds.
type APIs = sets.Set[schema.GroupVersionKind]

// labelAPI is the beginning of the labels that tell which APIs a ClusterServiceVersion provides and
// requires.
const labelAPI = "olm.api."

// What the label of an API says.
const (
	APIProvided = "provided"
	APIRequired = "required"
)

// Text is an API as OperatorGroups list it: Kind.version.group.
func Text(api schema.GroupVersionKind) string {
	return api.Kind + "." + api.Version + "." + api.Group
}

// Join lists APIs as the annotation of an OperatorGroup does: sorted, with commas between.
func Join(apis APIs) string {
	texts := make([]string, 0, len(apis))
	for api := range apis {
		texts = append(texts, Text(api))
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

// Split reads a list that Join wrote. A person may have written it: what is no API is left out.
func Split(text string) APIs {
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

// APIHash is a short name of an API, for keys of labels: its text under FNV-1a of 64 bits, as
// hexadecimal digits.
func APIHash(api schema.GroupVersionKind) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(Text(api))) // a hash takes everything
	return strconv.FormatUint(h.Sum64(), 16)
}

// APILabel is the label of ClusterServiceVersions that provide or require an API.
func APILabel(api schema.GroupVersionKind) string { return labelAPI + APIHash(api) }

// Provided are the APIs that a ClusterServiceVersion owns. It fails when the name of a CRD has no
// group.
func Provided(csv *v1alpha1.ClusterServiceVersion) (APIs, error) {
	return apisOf(csv.Spec.CustomResourceDefinitions.Owned, csv.Spec.APIServiceDefinitions.Owned)
}

// Required are the APIs that a ClusterServiceVersion needs others to provide. It fails when the
// name of a CRD has no group.
func Required(csv *v1alpha1.ClusterServiceVersion) (APIs, error) {
	return apisOf(csv.Spec.CustomResourceDefinitions.Required, csv.Spec.APIServiceDefinitions.Required)
}

func apisOf(crds []v1alpha1.CRDDescription, services []v1alpha1.APIServiceDescription) (APIs, error) {
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

// APILabels are the labels that a ClusterServiceVersion should have for its APIs, and no others of
// this sort. What it provides it does not require.
func APILabels(csv *v1alpha1.ClusterServiceVersion) (map[string]string, error) {
	provided, err := Provided(csv)
	if err != nil {
		return nil, err
	}

	required, err := Required(csv)
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

// IsAPILabel reports whether a label tells of an API.
func IsAPILabel(key string) bool { return strings.HasPrefix(key, labelAPI) }

// APIServiceName is the name of the APIService of a version of a group.
func APIServiceName(d v1alpha1.APIServiceDescription) string { return d.Version + "." + d.Group }

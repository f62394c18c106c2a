package release

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Annotations of manifests.
const (
	// AnnotationExcludePrefix and an identifier, with the value "true", exclude the manifest from
	// clusters whose operator has that identifier.
	AnnotationExcludePrefix = "exclude.release.openshift.io/"
	// AnnotationIncludePrefix and a profile, with the value "true", include the manifest in
	// clusters with that profile. A manifest without it is not applied.
	AnnotationIncludePrefix = "include.release.openshift.io/"
	// AnnotationFeatureSet is a comma-separated list of the feature sets that include the
	// manifest.
	AnnotationFeatureSet = "release.openshift.io/feature-set"
	// AnnotationFeatureGate is a comma-separated list of feature gates that must be enabled, or
	// disabled if the name has a leading dash.
	AnnotationFeatureGate = "release.openshift.io/feature-gate"
	// AnnotationMajorVersion is a comma-separated list of major versions of the release that
	// include the manifest, or exclude it if the number has a leading dash. Only CRDs and
	// FeatureGates may have it.
	AnnotationMajorVersion = "release.openshift.io/major-version"
	// AnnotationCapability is a list of capabilities, separated by plus signs, that must all be
	// enabled.
	AnnotationCapability = "capability.openshift.io/name"
	// AnnotationCreateOnly with the value "true" means that the object is created if it does not
	// exist, and never updated.
	AnnotationCreateOnly = "release.openshift.io/create-only"
	// AnnotationDelete with the value "true" means that an update deletes the object.
	AnnotationDelete = "release.openshift.io/delete"
)

// enabled is the value of annotations that enable something.
const enabled = "true"

// Manifest is an object of a payload. It must not be changed.
type Manifest struct {
	// File is the path of its file within the payload.
	File string
	// Document is its number in the file, counted from 1.
	Document int
	// Raw is the object as JSON.
	Raw []byte
	// Object is the decoded object.
	Object unstructured.Unstructured
}

// Key identifies an object in a cluster, independent of the API version.
type Key struct {
	Group, Kind, Namespace, Name string
}

// String returns kind, group, and namespace/name.
func (k Key) String() string {
	name := k.Name
	if k.Namespace != "" {
		name = k.Namespace + "/" + k.Name
	}
	return fmt.Sprintf("%s %q", schema.GroupKind{Group: k.Group, Kind: k.Kind}, name)
}

// Key returns the key of the object.
func (m Manifest) Key() Key {
	kind := m.Object.GroupVersionKind()
	return Key{Group: kind.Group, Kind: kind.Kind, Namespace: m.Object.GetNamespace(), Name: m.Object.GetName()}
}

// FileName parses the name of the manifest's file.
func (m Manifest) FileName() (parsed FileName, ok bool) { return ParseFileName(path.Base(m.File)) }

// IsJob reports whether the object is a batch Job. Manifests are not reordered across a Job.
func (m Manifest) IsJob() bool {
	key := m.Key()
	return key.Group == "batch" && key.Kind == "Job"
}

// CreateOnly reports whether the object is created if it does not exist, and never updated.
func (m Manifest) CreateOnly() bool { return m.annotationValue(AnnotationCreateOnly) == enabled }

// Deletes reports whether the manifest is a tombstone: an update deletes the object, and it is
// never created. It returns an error for an annotation value other than "true", which Load
// rejects.
func (m Manifest) Deletes() (bool, error) {
	value, ok := m.Object.GetAnnotations()[AnnotationDelete]
	if ok && value != enabled {
		return false, fmt.Errorf("annotation %s: must be %q, not %q: remove it to keep the object", AnnotationDelete, enabled, value)
	}
	return ok, nil
}

// Capabilities returns the capabilities that must all be enabled for the manifest to be applied.
// An empty name between two plus signs counts as an unknown capability.
func (m Manifest) Capabilities() []string {
	value := strings.TrimSpace(m.annotationValue(AnnotationCapability))
	if value == "" {
		return nil
	}

	names := strings.Split(value, "+")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}

	return names
}

func (m Manifest) annotationValue(name string) string { return m.Object.GetAnnotations()[name] }

// splitCommaList returns the trimmed, non-empty items of a comma-separated list.
func splitCommaList(value string) []string {
	var items []string
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// Hash returns a hash of manifests and their order. For the manifests that a cluster applies, it
// is the versionHash of the ClusterVersion.
func Hash(manifests []Manifest) string {
	hash := fnv.New64()
	for _, m := range manifests {
		_, _ = hash.Write(m.Raw) // Writes to a hash do not fail.
	}
	return base64.URLEncoding.EncodeToString(hash.Sum(nil))
}

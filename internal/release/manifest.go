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
	// AnnotationExcludePrefix and an identifier, with the value "true": a cluster whose
	// operator has that identifier does not apply the manifest.
	AnnotationExcludePrefix = "exclude.release.openshift.io/"
	// AnnotationIncludePrefix and a profile, with the value "true": clusters of that
	// profile apply the manifest. Without it they do not.
	AnnotationIncludePrefix = "include.release.openshift.io/"
	// AnnotationFeatureSet lists, with commas, the feature sets that have the manifest.
	AnnotationFeatureSet = "release.openshift.io/feature-set"
	// AnnotationFeatureGate lists, with commas, feature gates that must be on, or off
	// where a dash stands before the name.
	AnnotationFeatureGate = "release.openshift.io/feature-gate"
	// AnnotationMajorVersion lists, with commas, major versions of the release that have
	// the manifest, or do not where a dash stands before the number. Only CRDs and
	// FeatureGates may carry it.
	AnnotationMajorVersion = "release.openshift.io/major-version"
	// AnnotationCapability lists, with plus signs, the capabilities that must all be
	// enabled.
	AnnotationCapability = "capability.openshift.io/name"
	// AnnotationCreateOnly, with the value "true": the object is created when it is absent,
	// and never changed.
	AnnotationCreateOnly = "release.openshift.io/create-only"
	// AnnotationDelete, with the value "true": an update deletes the object.
	AnnotationDelete = "release.openshift.io/delete"
)

// enabled is the value of annotations that switch something on.
const enabled = "true"

// Manifest is one object of a payload. It must not be changed.
type Manifest struct {
	// File is the path of its file within the payload.
	File string
	// Document is its place in the file, counted from 1.
	Document int
	// Raw is the object as JSON.
	Raw []byte
	// Object is the object decoded.
	Object unstructured.Unstructured
}

// Key names an object in a cluster, in whatever version it is read.
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

// Key names the object.
func (m Manifest) Key() Key {
	kind := m.Object.GroupVersionKind()
	return Key{Group: kind.Group, Kind: kind.Kind, Namespace: m.Object.GetNamespace(), Name: m.Object.GetName()}
}

// FileName is ParseFileName of the manifest's file.
func (m Manifest) FileName() (parsed FileName, ok bool) { return ParseFileName(path.Base(m.File)) }

// IsJob reports whether the object is a batch Job, before and after which nothing is moved.
func (m Manifest) IsJob() bool {
	key := m.Key()
	return key.Group == "batch" && key.Kind == "Job"
}

// CreateOnly reports whether the object is created when it is absent and never changed.
func (m Manifest) CreateOnly() bool { return m.annotation(AnnotationCreateOnly) == enabled }

// Deletes reports whether the manifest is a tombstone: an update deletes the object, and
// nothing ever creates it. The annotation has no other value than "true"; Load refuses any
// other.
func (m Manifest) Deletes() (bool, error) {
	value, ok := m.Object.GetAnnotations()[AnnotationDelete]
	if ok && value != enabled {
		return false, fmt.Errorf("annotation %s: must be %q, not %q: remove it to keep the object", AnnotationDelete, enabled, value)
	}
	return ok, nil
}

// Capabilities returns those that must all be enabled for the manifest to be applied. An empty name
// between two plus signs is a capability that nobody knows.
func (m Manifest) Capabilities() []string {
	value := strings.TrimSpace(m.annotation(AnnotationCapability))
	if value == "" {
		return nil
	}

	names := strings.Split(value, "+")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}

	return names
}

func (m Manifest) annotation(name string) string { return m.Object.GetAnnotations()[name] }

// list returns the items of a list with commas, without the blanks around them. Empty items are
// none.
func list(value string) []string {
	var items []string
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// Hash is about the manifests and their order: it changes when one of them changes, and
// not otherwise. Given those that a cluster applies, it is the versionHash that a
// ClusterVersion reports.
func Hash(manifests []Manifest) string {
	hash := fnv.New64()
	for _, m := range manifests {
		_, _ = hash.Write(m.Raw) // A hash takes everything.
	}
	return base64.URLEncoding.EncodeToString(hash.Sum(nil))
}

package worker

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// workPlan is Work with its selected manifests and what is known of each. Only the Generation,
// Payload and Cluster of its Work change.
type workPlan struct {
	work Work
	// manifests are the manifests that belong to the cluster; items has one entry for each.
	manifests []release.Manifest
	items     []item
	overrides []release.Override
	// definedKinds are the kinds that CRDs of the release define.
	definedKinds map[schema.GroupKind]bool
	// hash is the hash of the manifests.
	hash string
	// needsEnvironment is true if a manifest needs values of the cluster's configuration.
	needsEnvironment bool
}

// item is a manifest of a work plan.
type item struct {
	manifest *unstructured.Unstructured
	kind     schema.GroupVersionKind
	key      release.Key
	// digest is the digest of the manifest's content.
	digest [sha256.Size]byte
	// exclusionReason is why the manifest is skipped, as a sentence without a subject. It is
	// empty if the manifest is applied.
	exclusionReason string
	// manifestErr is an error of the manifest itself, in any cluster.
	manifestErr error
	// createOnly and isTombstone come from the annotations of the manifest.
	createOnly, isTombstone bool
	injection               injection
}

// newWorkPlan prepares work. It shares as much as possible with the plan before, because a
// payload is large and Update is often called with the same work.
func newWorkPlan(work *Work, before *workPlan) *workPlan {
	next := &workPlan{work: *work, overrides: work.releaseOverrides()}
	if before != nil && before.work.Payload == work.Payload && reflect.DeepEqual(before.work.Cluster, work.Cluster) {
		if work.hasSameSettings(&before.work) {
			next.manifests = before.manifests
			next.items = before.items
			next.definedKinds = before.definedKinds
			next.hash = before.hash
			next.needsEnvironment = before.needsEnvironment
			return next
		}
		next.manifests = before.manifests
		next.hash = before.hash
	} else {
		next.manifests = work.Cluster.Select(work.Payload.Manifests)
		next.hash = release.Hash(next.manifests)
	}

	next.items = make([]item, len(next.manifests))
	next.definedKinds = map[schema.GroupKind]bool{}
	for i, m := range next.manifests {
		next.items[i] = next.newItem(m)
		if it := &next.items[i]; it.isCRD() && it.exclusionReason == "" && !it.isTombstone {
			group, _, _ := unstructured.NestedString(it.manifest.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(it.manifest.Object, "spec", "names", "kind")
			next.definedKinds[schema.GroupKind{Group: group, Kind: kind}] = true
		}
		next.needsEnvironment = next.needsEnvironment || !next.items[i].injection.isEmpty()
	}

	return next
}

// newItem returns the item of a manifest.
func (plan *workPlan) newItem(m release.Manifest) item {
	it := item{
		manifest: &m.Object, kind: m.Object.GroupVersionKind(), key: m.Key(), digest: sha256.Sum256(m.Raw),
		createOnly: m.CreateOnly(), injection: parseInjection(&m.Object),
	}
	it.isTombstone, it.manifestErr = m.Deletes()
	if release.Overridden(m, plan.overrides) {
		it.exclusionReason = "is left to the administrator by spec.overrides"
	} else if reason, excluded := plan.work.Capabilities.Excludes(m); excluded {
		it.exclusionReason = reason
	}
	return it
}

// differsFrom reports whether the plan differs in content from another plan for the same
// release.
func (plan *workPlan) differsFrom(other *workPlan) bool {
	return plan.hash != other.hash || !plan.work.hasSameSettings(&other.work)
}

func (it *item) isClusterOperator() bool {
	return it.key.Group == "config.openshift.io" && it.key.Kind == "ClusterOperator"
}

func (it *item) isCRD() bool {
	return it.key.Group == "apiextensions.k8s.io" && it.key.Kind == "CustomResourceDefinition"
}

// String returns the kind in lower case and the quoted name.
func (it *item) String() string {
	return fmt.Sprintf("%s %q", strings.ToLower(it.key.Kind), namespacedName(it.key))
}

// manifestError is an error of a manifest or object that a retry cannot fix. Its text is shown
// to the administrator.
type manifestError struct{ error }

// Unwrap returns the wrapped error.
func (f manifestError) Unwrap() error { return f.error }

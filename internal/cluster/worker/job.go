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

// job is Work made ready. But for the Generation of its Work it does not change.
type job struct {
	work Work
	// manifests are those that belong to the cluster, items what is known of each.
	manifests []release.Manifest
	items     []item
	overrides []release.Override
	// kinds are those that its CRDs define.
	kinds map[schema.GroupKind]bool
	// hash is about the manifests.
	hash string
	// injects says that objects of the cluster's configuration are needed.
	injects bool
}

// item is a manifest of a job.
type item struct {
	manifest *unstructured.Unstructured
	kind     schema.GroupVersionKind
	key      release.Key
	// digest is about the content of the manifest.
	digest [sha256.Size]byte
	// excluded is why the manifest is passed over, in a sentence without a subject; empty
	// when it is not.
	excluded string
	// fault is what is wrong with it whatever the cluster is like.
	fault error
	// createOnly and deletes are what its annotations ask for.
	createOnly, deletes bool
	inject              injection
}

// newJob makes work ready. What it has in common with the job before is taken from there,
// as a payload is large and the same work is given often.
func newJob(work *Work, before *job) *job {
	next := &job{work: *work, overrides: work.overrides()}
	if before != nil && before.work.Payload == work.Payload && reflect.DeepEqual(before.work.Cluster, work.Cluster) {
		if work.asksTheSame(&before.work) {
			next.manifests, next.items, next.kinds, next.hash, next.injects = before.manifests, before.items, before.kinds, before.hash, before.injects
			return next
		}
		next.manifests, next.hash = before.manifests, before.hash
	} else {
		next.manifests = work.Cluster.Select(work.Payload.Manifests)
		next.hash = release.Hash(next.manifests)
	}

	next.items = make([]item, len(next.manifests))
	next.kinds = map[schema.GroupKind]bool{}
	for i, m := range next.manifests {
		next.items[i] = next.item(m)
		if it := &next.items[i]; it.isCRD() && it.excluded == "" && !it.deletes {
			group, _, _ := unstructured.NestedString(it.manifest.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(it.manifest.Object, "spec", "names", "kind")
			next.kinds[schema.GroupKind{Group: group, Kind: kind}] = true
		}
		next.injects = next.injects || !next.items[i].inject.isNothing()
	}

	return next
}

func (j *job) item(m release.Manifest) item {
	it := item{
		manifest: &m.Object, kind: m.Object.GroupVersionKind(), key: m.Key(), digest: sha256.Sum256(m.Raw),
		createOnly: m.CreateOnly(), inject: injectionOf(&m.Object),
	}
	it.deletes, it.fault = m.Deletes()
	if release.Overridden(m, j.overrides) {
		it.excluded = "is left to the administrator by spec.overrides"
	} else if reason, excluded := j.work.Capabilities.Excludes(m); excluded {
		it.excluded = reason
	}
	return it
}

// isNot reports whether it asks for something else than a job for the same release.
func (j *job) isNot(other *job) bool {
	return j.hash != other.hash || !j.work.asksTheSame(&other.work)
}

func (it *item) isOperator() bool {
	return it.key.Group == "config.openshift.io" && it.key.Kind == "ClusterOperator"
}

func (it *item) isCRD() bool {
	return it.key.Group == "apiextensions.k8s.io" && it.key.Kind == "CustomResourceDefinition"
}

// String returns the kind in lower case and the name.
func (it *item) String() string {
	return fmt.Sprintf("%s %q", strings.ToLower(it.key.Kind), objectName(it.key))
}

// fault is an error of a manifest: no further attempt helps, and its text helps people.
type fault struct{ error }

// Unwrap returns the error.
func (f fault) Unwrap() error { return f.error }

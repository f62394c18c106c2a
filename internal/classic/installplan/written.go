package installplan

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// writtenVersions has the resource versions of the plans whose last write may not be in the cache yet. A plan creates
// service accounts and roles whose events enqueue the plan again. The zero value is ready to use.
type writtenVersions struct {
	mu       sync.Mutex
	versions map[types.NamespacedName]string
}

// add stores the version of a plan that was written.
func (w *writtenVersions) add(plan *v1alpha1.InstallPlan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[types.NamespacedName]string{}
	}
	w.versions[client.ObjectKeyFromObject(plan)] = plan.ResourceVersion
}

// remove removes a plan that does not exist.
func (w *writtenVersions) remove(plan types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, plan)
}

// isOutdated reports whether a plan that was read from the cache is older than its last write.
func (w *writtenVersions) isOutdated(plan *v1alpha1.InstallPlan) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	written, ok := w.versions[client.ObjectKeyFromObject(plan)]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(plan.ResourceVersion, written)
	return err == nil && order < 0
}

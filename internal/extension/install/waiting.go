package install

import (
	"sync"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/types"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// waitingBundle is the bundle that an extension would install if its requirements were met. The
// zero value is for an extension that waits for something else.
type waitingBundle struct {
	pkg, name  string
	version    semver.Version
	properties []fbc.Property
}

// waitingExtensions are the extensions that wait for others. They are enqueued when one of the
// others changes. After a restart every extension is reconciled, which fills it again. The zero
// value is ready for use.
type waitingExtensions struct {
	// bundles maps the names of extensions to a waitingBundle.
	bundles sync.Map
}

// record records that an extension waits, and with which bundle.
func (w *waitingExtensions) record(extension string, bundle waitingBundle) {
	w.bundles.Store(extension, bundle)
}

// remove records that an extension does not wait any more.
func (w *waitingExtensions) remove(extension string) { w.bundles.Delete(extension) }

// listRequestsExcept returns requests for the waiting extensions, except one.
func (w *waitingExtensions) listRequestsExcept(extension string) []ctrlreconcile.Request {
	var requests []ctrlreconcile.Request
	w.bundles.Range(func(name, _ any) bool {
		if name != extension {
			requests = append(requests, ctrlreconcile.Request{NamespacedName: types.NamespacedName{Name: name.(string)}})
		}
		return true
	})

	return requests
}

// listPendingBundles returns the bundles of other extensions that are being rolled out, or wait for
// their requirements.
func (w *waitingExtensions) listPendingBundles(peers *peerSet) []*dependency.Bundle {
	var bundles []*dependency.Bundle
	for _, set := range peers.revisions {
		if b := bundleFromRevision(set); b != nil && !hasSucceeded(set) {
			bundles = append(bundles, b)
		}
	}

	for i := range peers.extensions {
		value, _ := w.bundles.Load(peers.extensions[i].Name)
		if waits, _ := value.(waitingBundle); waits.name != "" {
			bundles = append(bundles, dependency.NewBundle(waits.name, waits.pkg, waits.version, waits.properties))
		}
	}

	return bundles
}

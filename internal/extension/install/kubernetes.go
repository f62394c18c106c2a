package install

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// platformReader reads what resolution and rendering need to know of the cluster.
type platformReader struct {
	// kubernetesVersion returns the version of the API server. It may be nil.
	kubernetesVersion func() (*version.Info, error)
	// certManagerCache holds the APIService of cert-manager. It is nil if cert-manager is not used.
	certManagerCache client.Reader
}

// serverVersion returns the version of the API server. It is empty if it is not known.
func (r *platformReader) serverVersion() (string, error) {
	if r.kubernetesVersion == nil {
		return "", nil
	}

	info, err := r.kubernetesVersion()
	if err != nil {
		return "", fmt.Errorf("reading the version of the API server: %w", err)
	}
	return info.GitVersion, nil
}

// checkMinKubeVersion checks that the cluster is at least at the bundle's spec.minKubeVersion. An
// empty cluster version is unknown, and always suffices.
func checkMinKubeVersion(loaded *bundle.Bundle, cluster string) error {
	least := string(loaded.CSV.Spec.MinKubeVersion)
	suffices, err := resolve.Suffices(cluster, least)
	var unreadable *resolve.MinKubeVersionError
	switch {
	case errors.As(err, &unreadable):
		return reconcile.Stop(olmv1.ReasonBlocked, err)
	case err != nil:
		return err
	case !suffices:
		return reconcile.Wait(olmv1.ReasonRetrying, resolutionRetryInterval, fmt.Errorf(
			"it needs Kubernetes %s or later, and this cluster runs %s: update the cluster, or keep to an earlier version with spec.source.catalog.version", least, cluster))
	}

	return nil
}

// meetsMinKubeVersion reports whether the API server is at least at a minKubeVersion. It also
// returns true if that is unknown: the chosen bundle is checked again, with an error message.
func (r *platformReader) meetsMinKubeVersion(least string) bool {
	cluster, err := r.serverVersion()
	if err != nil {
		return true
	}
	suffices, err := resolve.Suffices(cluster, least)
	return suffices || err != nil
}

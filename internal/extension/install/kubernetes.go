package install

import (
	"errors"
	"fmt"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// kubernetes returns the version of the API server; empty when nobody can be asked.
func (c *Controller) kubernetes() (string, error) {
	if c.KubernetesVersion == nil {
		return "", nil
	}

	info, err := c.KubernetesVersion()
	if err != nil {
		return "", fmt.Errorf("asking for the version of the API server: %w", err)
	}
	return info.GitVersion, nil
}

// checkKubernetes makes sure that the cluster is as new as a bundle's spec.minKubeVersion
// asks. An empty version of the cluster is not known, and suffices.
func checkKubernetes(loaded *bundle.Bundle, cluster string) error {
	least := string(loaded.CSV.Spec.MinKubeVersion)
	suffices, err := resolve.Suffices(cluster, least)
	var unreadable *resolve.MinKubeVersionError
	switch {
	case errors.As(err, &unreadable):
		return reconcile.Stop(olmv1.ReasonBlocked, err)
	case err != nil:
		return err
	case !suffices:
		return reconcile.Wait(olmv1.ReasonRetrying, rechoose, fmt.Errorf(
			"it needs Kubernetes %s or later, and this cluster runs %s: update the cluster, or keep to an earlier version with spec.source.catalog.version", least, cluster))
	}

	return nil
}

// runsOn reports whether the API server is as new as a minKubeVersion asks. What cannot be told
// is no reason to choose another bundle: the chosen one is checked again, and says why.
func (c *Controller) runsOn(least string) bool {
	cluster, err := c.kubernetes()
	if err != nil {
		return true
	}
	suffices, err := resolve.Suffices(cluster, least)
	return suffices || err != nil
}

package install

import (
	"fmt"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/reconcile"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// kubernetes gives the version of the API server; empty when nobody can be asked.
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
// asks. Only the three numbers of versions count: providers of clusters write their own
// marks behind them. An empty version of the cluster is not known, and suffices.
func checkKubernetes(loaded *bundle.Bundle, cluster string) error {
	least := string(loaded.CSV.Spec.MinKubeVersion)
	if least == "" || cluster == "" {
		return nil
	}
	wanted, err := semver.ParseTolerant(least)
	if err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("spec.minKubeVersion %q of its ClusterServiceVersion is no version: its author has to correct it", least))
	}
	has, err := semver.ParseTolerant(cluster)
	if err != nil {
		return fmt.Errorf("the version of the API server, %q: %w", cluster, err)
	}
	if plain(has).LT(plain(wanted)) {
		return reconcile.Wait(olmv1.ReasonRetrying, rechoose, fmt.Errorf(
			"it needs Kubernetes %s or later, and this cluster runs %s: update the cluster, or keep to an earlier version with spec.source.catalog.version", least, cluster))
	}
	return nil
}

// runsOn tells whether the API server is as new as a minKubeVersion asks. What cannot be told
// is no reason to choose another bundle: the chosen one is checked again, and says why.
func (c *Controller) runsOn(least string) bool {
	cluster, err := c.kubernetes()
	if err != nil || cluster == "" {
		return true
	}
	wanted, err := semver.ParseTolerant(least)
	if err != nil {
		return true
	}
	has, err := semver.ParseTolerant(cluster)
	return err != nil || plain(has).GTE(plain(wanted))
}

// plain is a version without its pre-release and build parts.
func plain(v semver.Version) semver.Version {
	return semver.Version{Major: v.Major, Minor: v.Minor, Patch: v.Patch}
}

package release

import (
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// monitoringManifests are the operator's own manifests that a bootstrap machine leaves out,
// because their kinds are part of the cluster's monitoring.
var monitoringManifests = sets.New(
	"0000_90_cluster-version-operator_00_prometheusrole.yaml",
	"0000_90_cluster-version-operator_01_prometheusrolebinding.yaml",
	"0000_90_cluster-version-operator_02_servicemonitor.yaml",
)

// imagePolicyKinds are the kinds that state which images are trusted. Nodes need them before
// they pull the first image.
var imagePolicyKinds = sets.New("ClusterImagePolicy", "ImagePolicy")

// ForBootstrap returns the manifests that a bootstrap machine creates before the operator runs:
// the operator's own except those that need monitoring, and image policies.
func (p *Payload) ForBootstrap() []Manifest {
	return slices.DeleteFunc(slices.Clone(p.Manifests), func(m Manifest) bool {
		folder, file := path.Split(m.File)
		if path.Clean(folder) == FolderOwn {
			return monitoringManifests.Has(file)
		}
		key := m.Key()
		return key.Group != "config.openshift.io" || !imagePolicyKinds.Has(key.Kind)
	})
}

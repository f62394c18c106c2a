package release

import (
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// needMonitoring are the files of the operator's own manifests that a machine which makes a
// cluster leaves out: their kinds come with the cluster's monitoring.
var needMonitoring = sets.New(
	"0000_90_cluster-version-operator_00_prometheusrole.yaml",
	"0000_90_cluster-version-operator_01_prometheusrolebinding.yaml",
	"0000_90_cluster-version-operator_02_servicemonitor.yaml",
)

// imagePolicies are the kinds that say which images are trusted. Nodes must know it before
// they pull the first one.
var imagePolicies = sets.New("ClusterImagePolicy", "ImagePolicy")

// ForBootstrap returns the manifests that a machine which makes a cluster puts there before the
// operator runs: the operator's own but for those that need monitoring, and of all others
// those that say which images are trusted.
func (p *Payload) ForBootstrap() []Manifest {
	return slices.DeleteFunc(slices.Clone(p.Manifests), func(m Manifest) bool {
		folder, file := path.Split(m.File)
		if path.Clean(folder) == FolderOwn {
			return needMonitoring.Has(file)
		}
		key := m.Key()
		return key.Group != "config.openshift.io" || !imagePolicies.Has(key.Kind)
	})
}

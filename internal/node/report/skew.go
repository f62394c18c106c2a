package report

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

const (
	// supportedSkew is how many minor versions kubelets may be behind the API server, as the
	// version skew policy of Kubernetes has it.
	supportedSkew = 3
	// maxNamedNodes limits the nodes that a message names.
	maxNamedNodes = 5
)

// describeOutdatedNodes returns a description of the nodes that an API server of the next minor version does not support;
// empty when there are none. It ignores versions that cannot be parsed, such as those of nodes that never reported.
func describeOutdatedNodes(server string, nodes []corev1.Node) string {
	api, err := version.ParseGeneric(server)
	if err != nil || api.Minor()+1 < supportedSkew {
		return ""
	}

	oldest := api.Minor() + 1 - supportedSkew
	var behind []string
	for i := range nodes {
		kubelet, err := version.ParseGeneric(nodes[i].Status.NodeInfo.KubeletVersion)
		if err == nil && kubelet.Major() == api.Major() && kubelet.Minor() < oldest {
			behind = append(behind, fmt.Sprintf("%s (%d.%d)", nodes[i].Name, kubelet.Major(), kubelet.Minor()))
		}
	}

	if len(behind) == 0 {
		return ""
	}

	slices.Sort(behind)
	return fmt.Sprintf("The next minor version, Kubernetes %d.%d, supports kubelets from %d.%d on; these nodes are older: %s; update them first, and resume their pools where these are paused",
		api.Major(), api.Minor()+1, api.Major(), oldest, excerpt.Join(behind, maxNamedNodes, ", ", " and "))
}

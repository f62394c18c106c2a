package kube

import (
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// FormatCustomResources returns the number of custom resources of a CRD and their namespaces.
func FormatCustomResources(crd *action.CRDRemoval) string {
	text := fmt.Sprintf("%d custom resources", crd.CustomResources)
	switch {
	case crd.Unknown != "":
		return crd.Unknown
	case crd.CustomResources == 1:
		text = "1 custom resource"
	}

	switch len(crd.Namespaces) {
	case 0:
		return text
	case 1:
		return text + ", in namespace " + crd.Namespaces[0]
	default:
		return text + ", in namespaces " + excerpt.Join(crd.Namespaces, maxListedNamespaces, ", ", " and ")
	}
}

// maxListedNamespaces is the number of namespaces that are named for a CRD.
const maxListedNamespaces = 10

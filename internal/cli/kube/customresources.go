package kube

import (
	"fmt"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/action"
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

	switch n := len(crd.Namespaces); {
	case n == 0:
		return text
	case n == 1:
		return text + ", in namespace " + crd.Namespaces[0]
	case n > maxListedNamespaces:
		return fmt.Sprintf("%s, in namespaces %s and %d more", text, strings.Join(crd.Namespaces[:maxListedNamespaces], ", "), n-maxListedNamespaces)
	default:
		return text + ", in namespaces " + strings.Join(crd.Namespaces, ", ")
	}
}

// maxListedNamespaces is the number of namespaces that are named for a CRD.
const maxListedNamespaces = 10

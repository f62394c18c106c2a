//go:build !linux

package realnode

import (
	"fmt"
	"os"
)

// initNamespaces are the namespaces that the node has for itself: none, where there are none.
const initNamespaces = 0

// InitMain is the node's first process, on Linux.
func InitMain([]string) int {
	fmt.Fprintf(os.Stderr, "%s: a real node needs Linux\n", InitProgram)
	return 1
}

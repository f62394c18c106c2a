//go:build !linux

package realnode

import (
	"fmt"
	"os"
)

// initNamespaces is 0: only Linux has namespaces.
const initNamespaces = 0

// InitMain returns an error code: a real node runs only on Linux.
func InitMain([]string) int {
	fmt.Fprintf(os.Stderr, "%s: a real node needs Linux\n", InitProgram)
	return 1
}

package archtest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// notInOpm are packages of typed clients, caches and controllers. opm does not need them, and they
// would take time and memory at each of its starts. Scripts start opm for each of hundreds of images.
var notInOpm = []string{
	// The few commands of opm that talk to a cluster use the REST client of client-go.
	"k8s.io/client-go/discovery", "k8s.io/client-go/dynamic", "k8s.io/client-go/informers", "k8s.io/client-go/kubernetes",
	"sigs.k8s.io/controller-runtime",
	"k8s.io/kube-openapi/pkg/validation",
}

// linked returns every package of a program.
func linked(t *testing.T, program string) []string {
	t.Helper()
	list := exec.Command("go", "list", "-deps", program)
	list.Dir = filepath.Join("..", "..")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}

	return strings.Fields(string(out))
}

func TestOpmLinksNothingHeavy(t *testing.T) {
	packages := linked(t, "./cmd/opm")
	for _, name := range packages {
		for _, forbidden := range notInOpm {
			if within(name, forbidden) {
				t.Errorf("opm links %s: 'go list -f \"{{.ImportPath}} {{.Imports}}\" -deps ./cmd/opm' shows who imports it", name)
			}
		}
	}

	if !strings.Contains(strings.Join(packages, " "), module+"/internal/cli/opm") {
		t.Errorf("the list of packages has no command line: the test looks at something else: %d packages", len(packages))
	}
}

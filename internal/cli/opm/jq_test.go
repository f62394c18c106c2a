package opm_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// The documented jq queries work on rendered catalogs.
func TestQueries(t *testing.T) {
	checkout.FindProgram(t, "jq")
	for name, q := range map[string]struct {
		flags, query string
	}{
		"packages":        {"-s", `.[] | select( .schema == "olm.package")`},
		"all-namespaces":  {"-cs", `[.[] | select(.schema == "olm.bundle" and (.properties[] | select(.type == "olm.csv.metadata").value.installModes[] | select(.type == "AllNamespaces" and .supported == true)) and .spec.webhookdefinitions == null) | .package] | unique[]`},
		"package":         {"-s", `.[] | select( .schema == "olm.package") | select( .name == "kettle")`},
		"blobs":           {"-s", `.[] | select( .package == "kettle")`},
		"channels":        {"-s", `.[] | select( .schema == "olm.channel" ) | select( .package == "kettle") | .name`},
		"versions":        {"-s", `.[] | select( .package == "kettle" ) | select( .schema == "olm.channel" ) | select( .name == "stable" ) .entries | .[] | .name`},
		"channel":         {"-s", `.[] | select( .schema == "olm.channel" ) | select ( .name == "beta" ) | select( .package == "kettle")`},
		"bundles":         {"-s", `.[] | select( .schema == "olm.bundle" ) | select( .package == "kettle") | .name`},
		"bundle":          {"-s", `.[] | select( .schema == "olm.bundle" ) | select ( .name == "kettle.v0.3.0-rc1") | select( .package == "kettle")`},
		"images":          {"-cs", `.[] | select( .schema == "olm.bundle" ) | select( .package == "kettle") | {"name":.name, "image":.image}`},
		"every-package":   {"", `select(.schema == "olm.package") | .name`},
		"default-channel": {"-r", `select(.schema == "olm.package") | .name + " " + .defaultChannel`},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(strings.Fields(q.flags), q.query)
			jq := exec.Command("jq", args...)
			jq.Stdin = strings.NewReader(mustRun(t, "render", "testdata/catalog"))
			out, err := jq.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}

			golden.Check(t, "queries/"+name+".json", out)
		})
	}
}

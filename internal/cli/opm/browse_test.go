package opm_test

import (
	"strings"
	"testing"
)

// newer is an updated version of the catalog in testdata: a package is removed, another one is added, and
// kettle.v0.1.0 is stranded.
const newer = "testdata/newer"

func TestLookingIntoCatalogs(t *testing.T) {
	for name, line := range map[string]string{
		"search":             "search testdata/catalog",
		"search-word":        "search testdata/catalog water",
		"search-wide":        "search testdata/catalog kettle -o wide",
		"search-name":        "search testdata/catalog -o name",
		"search-nothing":     "search testdata/catalog samovar",
		"search-no-catalog":  "search",
		"search-broken":      "search testdata/broken",
		"show":               "show kettle testdata/catalog",
		"show-json":          "show kettle testdata/catalog -o json",
		"show-unknown":       "show samovar testdata/catalog",
		"graph":              "graph kettle testdata/catalog",
		"graph-dot":          "graph kettle testdata/catalog -o dot",
		"graph-one-channel":  "graph kettle testdata/catalog --channel stable",
		"graph-bad-format":   "graph kettle testdata/catalog -o png",
		"diff":               "diff testdata/catalog " + newer,
		"diff-yaml":          "diff testdata/catalog " + newer + " -o yaml",
		"diff-package":       "diff testdata/catalog " + newer + " -p pot",
		"diff-same":          "diff testdata/catalog testdata/catalog --fail-on-stranded",
		"diff-stranded":      "diff testdata/catalog " + newer + " -p kettle --fail-on-stranded",
		"cluster-kubeconfig": "search clustercatalog/operatorhub --kubeconfig testdata/nothing",
	} {
		t.Run(name, func(t *testing.T) { check(t, "browse/"+name, run(t, line)) })
	}
}

func TestGraphIsAPicture(t *testing.T) {
	if out := mustRun(t, "graph", "kettle", "testdata/catalog", "-o", "svg"); !strings.HasPrefix(out, "<svg ") || !strings.Contains(out, ">kettle.v0.1.0<") {
		t.Errorf("got no diagram of the kettle:\n%s", out)
	}
}

package serve_test

import (
	"slices"
	"strings"
	"testing"

	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// counted is the number of requests with labels, given as "name=value" and blanks.
func counted(t *testing.T, labels string) float64 {
	t.Helper()
	families, err := crmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(labels)
	for _, family := range families {
		if family.GetName() != "mainstay_catalog_http_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			matched := 0
			for _, label := range metric.GetLabel() {
				if slices.Contains(want, label.GetName()+"="+label.GetValue()) {
					matched++
				}
			}
			if matched == len(want) {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestRequestsAreCounted(t *testing.T) {
	s := newSite(t)
	before := counted(t, "endpoint=metas method=GET code=400")
	s.ask(t, "GET", "/catalogs/small/api/v1/metas?x=y")
	if got := counted(t, "endpoint=metas method=GET code=400") - before; got != 1 {
		t.Errorf("%v requests were counted, want 1", got)
	}
	before = counted(t, "endpoint=all method=other code=405")
	s.ask(t, "BREW", "/catalogs/small/api/v1/all")
	if got := counted(t, "endpoint=all method=other code=405") - before; got != 1 {
		t.Errorf("%v requests of an odd method were counted, want 1", got)
	}
}

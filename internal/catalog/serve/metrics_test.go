package serve_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
)

// value returns the value of a counter or gauge, or the count of a histogram. The labels have the form
// "name=value", separated by blanks. It returns 0 if the metric does not exist.
func value(t *testing.T, name, labels string) float64 {
	t.Helper()
	metrics.Register()
	families, err := crmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	want := strings.Fields(labels)
	for _, family := range families {
		if family.GetName() != name {
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
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}

	return 0
}

// grows calls do, and checks that metrics grow by the expected values. The server counts an
// response after it is sent, so that the client may receive it shortly before it is counted.
func grows(t *testing.T, do func(), by map[string]float64) {
	t.Helper()
	of := func(metric string) float64 {
		name, labels, _ := strings.Cut(metric, " ")
		return value(t, name, labels)
	}
	before := map[string]float64{}
	for metric := range by {
		before[metric] = of(metric)
	}

	do()
	for metric, want := range by {
		end := time.Now().Add(10 * time.Second)
		got := of(metric) - before[metric]
		for got < want && time.Now().Before(end) {
			got = of(metric) - before[metric]
		}
		if got != want {
			t.Errorf("%s has grown by %v, want %v", metric, got, want)
		}
	}
}

func TestMetrics(t *testing.T) {
	s := newFixture(t)
	grows(t, func() { s.sendRequest(t, "GET", "/catalogs/small/api/v1/metas?x=y") }, map[string]float64{
		"mainstay_catalog_http_requests_total endpoint=metas method=GET code=400": 1,
		"mainstay_catalog_http_request_duration_seconds endpoint=metas":           1,
		"mainstay_catalog_requests_total catalog=small":                           0,
	})
	grows(t, func() { s.sendRequest(t, "BREW", "/catalogs/small/api/v1/all") }, map[string]float64{
		"mainstay_catalog_http_requests_total endpoint=all method=other code=405": 1,
	})
	grows(t, func() { s.sendRequest(t, "GET", "/catalogs/none/api/v1/all") }, map[string]float64{
		"mainstay_catalog_http_requests_total endpoint=all method=GET code=404": 1,
		"mainstay_catalog_requests_total catalog=none":                          0,
	})
	grows(t, func() { s.sendRequest(t, "GET", "/catalogs/small/api/v1/all") }, map[string]float64{
		"mainstay_catalog_http_requests_total endpoint=all method=GET code=200": 1,
		"mainstay_catalog_http_response_bytes_total endpoint=all":               float64(len(lineA + lineB)),
		"mainstay_catalog_requests_total catalog=small":                         1,
		"mainstay_catalog_response_bytes_total catalog=small":                   float64(len(lineA + lineB)),
	})

	grows(t, func() { s.sendRequest(t, "GET", "/catalogs/small/api/v1/all", "If-None-Match: *") }, map[string]float64{
		"mainstay_catalog_http_requests_total endpoint=all method=GET code=304": 1,
		"mainstay_catalog_http_not_modified_total endpoint=all":                 1,
	})
	query := "/catalogs/large/api/v1/metas?package=p1&fields=none"
	grows(t, func() { s.sendRequest(t, "GET", query); s.sendRequest(t, "GET", query); s.sendRequest(t, "GET", query) }, map[string]float64{
		"mainstay_catalog_cache_lookups_total cache=made result=miss": 1,
		"mainstay_catalog_cache_lookups_total cache=made result=hit":  2,
	})
	metrics.ForgetCatalog("small")
	if value(t, "mainstay_catalog_requests_total", "catalog=small") != 0 || value(t, "mainstay_catalog_response_bytes_total", "catalog=small") != 0 {
		t.Error("got metrics of a removed catalog, want none")
	}
	if value(t, "mainstay_catalog_requests_total", "catalog=large") == 0 {
		t.Error("got no metrics of a catalog that was not removed")
	}
}

package metrics_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
)

// use sets a value for each metric, because metrics without a value are not gathered.
func use(catalog string) {
	metrics.UnpackSeconds.WithLabelValues("stored").Observe(1)
	metrics.RecordStored(catalog, 1, 1)
	metrics.Requests.WithLabelValues("all", "GET", "200").Inc()
	metrics.RequestSeconds.WithLabelValues("all").Observe(1)
	metrics.Refused.WithLabelValues("requests").Inc()
	metrics.ResponseBytes.WithLabelValues("all").Inc()
	metrics.CatalogRequests.WithLabelValues(catalog).Inc()
	metrics.CatalogBytes.WithLabelValues(catalog).Inc()
	metrics.NotModified.WithLabelValues("all").Inc()
	metrics.RecordCacheLookup("made", true)
	metrics.RecordCacheLookup("made", false)
}

// gathered returns the metrics of this package with their labels.
func gathered(t *testing.T) map[string]string {
	t.Helper()
	metrics.Register()
	families, err := crmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	found := map[string]string{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "mainstay_catalog_") {
			continue
		}
		var text strings.Builder
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				text.WriteString(label.GetName() + "=" + label.GetValue() + " ")
			}
		}
		found[family.GetName()] = text.String()
	}

	return found
}

// The documentation lists exactly these metrics with their labels.
func TestDocumentation(t *testing.T) {
	use("c")
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "servers.md"))
	if err != nil {
		t.Fatal(err)
	}

	documented := map[string]string{}
	for line := range strings.Lines(string(page)) {
		for _, name := range regexp.MustCompile("`(mainstay_catalog_[a-z_]+)`").FindAllStringSubmatch(line, -1) {
			documented[name[1]] = line
		}
	}

	metrics := gathered(t)
	for name, labels := range metrics {
		for label := range strings.FieldsSeq(labels) {
			label, _, _ = strings.Cut(label, "=")
			if !strings.Contains(documented[name], "`"+label+"`") {
				t.Errorf("docs/servers.md does not list the label %s of %s", label, name)
			}
		}
	}

	for name := range documented {
		if _, there := metrics[name]; !there {
			t.Errorf("docs/servers.md lists the metric %s, which does not exist", name)
		}
	}
}

func TestForget(t *testing.T) {
	use("stays")
	use("goes")
	metrics.ForgetCatalog("goes")
	for name, labels := range gathered(t) {
		if strings.Contains(labels, "catalog=goes") {
			t.Errorf("%s has a value for the removed catalog, want none", name)
		}
		if strings.Contains(labels, "catalog=") && !strings.Contains(labels, "catalog=stays") {
			t.Errorf("%s has no value for the other catalog, want one", name)
		}
	}
}

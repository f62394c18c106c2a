package unpack

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// columns returns the columns that kubectl prints for the catalog, from the table format of the API server.
func (w *fixture) columns() (names []string, cells []any) {
	w.T.Helper()
	config := env.Start(w.T)
	transport, err := rest.TransportFor(config)
	w.Must(err)

	req, err := http.NewRequestWithContext(w.T.Context(), http.MethodGet, strings.TrimSuffix(config.Host, "/")+"/apis/olm.operatorframework.io/v1/clustercatalogs/"+w.name, nil)
	w.Must(err)

	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	resp, err := (&http.Client{Transport: transport}).Do(req)
	w.Must(err)
	defer resp.Body.Close()
	var table metav1.Table
	w.Must(json.NewDecoder(resp.Body).Decode(&table))

	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
	}

	if len(table.Rows) != 1 {
		w.T.Fatalf("the table is %+v", table)
	}

	return names, table.Rows[0].Cells
}

// TestColumns checks the printed columns of a served and of an unavailable catalog.
func TestColumns(t *testing.T) {
	w := newFixture(t)
	w.pushCatalog("v1", good)
	w.create("v1", 0)
	w.mustReconcile()
	names, cells := w.columns()
	if diff := cmp.Diff([]string{"Name", "LastUnpacked", "Serving", "Age"}, names); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if unpacked, ok := cells[1].(string); !ok || unpacked == "" || cells[2] != "True" {
		t.Errorf("got cells %v for a served catalog, want the unpack time and Serving True", cells)
	}

	w.change(func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable })
	w.mustReconcile()
	if _, cells := w.columns(); cells[1] != nil && cells[1] != "" || cells[2] != "False" {
		t.Errorf("got cells %v for an unavailable catalog, want no unpack time and Serving False", cells)
	}
}

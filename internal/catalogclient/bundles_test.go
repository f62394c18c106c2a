package catalogclient_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/catalogclient"
)

// listBundleNames returns the names of all bundles of the catalog c.
func listBundleNames(t *testing.T, c *catalogclient.Client, server string) (string, error) {
	t.Helper()
	var found []string
	for b, err := range c.Bundles(t.Context(), server+"/catalogs/c") {
		if err != nil {
			return strings.Join(found, " "), err
		}
		found = append(found, b.Package+"/"+b.Name)
		for _, p := range b.Properties {
			found = append(found, p.Type)
		}
	}

	return strings.Join(found, " "), nil
}

func TestBundlesOfACatalog(t *testing.T) {
	inner := newCatalogHandler(t)
	old := true
	s := newRecordingServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if old && r.URL.Query().Has("fields") {
			http.Error(w, "unknown parameter", http.StatusBadRequest)
			return
		}
		inner.ServeHTTP(w, r)
	}))

	with := "fields=" + url.QueryEscape(unwanted) + "&"
	for _, tc := range []struct {
		name string
		old  bool
		want []string
	}{
		{"a server with the parameter fields", false, []string{with + "schema=olm.bundle"}},
		{"a server without it", true, []string{with + "schema=olm.bundle", "schema=olm.bundle"}},
	} {
		old = tc.old
		c := catalogclient.New(catalogclient.Options{RootCAs: s.rootCAs, Fields: parseFields(t, unwanted)})
		got, err := listBundleNames(t, c, s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if want := "a/a.v1 olm.package"; got != want {
			t.Errorf("%s: the bundles are %q, want %q", tc.name, got, want)
		}
		if diff := cmp.Diff(tc.want, s.takeQueries()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestBundlesReturnErrors(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
		status       int
		content      bool
	}{
		{"no such catalog", "look again", http.StatusNotFound, false},
		{"half a blob", lineBundle + lineBundle[:20], http.StatusOK, true},
		{"a blob of another schema", lineChannel, http.StatusOK, true},
	} {
		s := newRecordingServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tc.status)
			_, _ = w.Write([]byte(tc.answer))
		}))
		_, err := listBundleNames(t, catalogclient.New(catalogclient.Options{RootCAs: s.rootCAs}), s.URL)
		var unavailable *catalogclient.UnavailableError
		var wrong *catalogclient.ContentError
		if tc.content != errors.As(err, &wrong) || tc.content == errors.As(err, &unavailable) {
			t.Errorf("%s: got error %v (%T), want a content error: %v", tc.name, err, err, tc.content)
		}
	}
}

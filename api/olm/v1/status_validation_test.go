package v1_test

import (
	"testing"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// The validation rules of the status apply to all writers.
func TestClusterCatalogStatusRules(t *testing.T) {
	c := env.Client(t)
	set := func(path, value string) map[string]string { return map[string]string{"status." + path: value} }
	for _, r := range []rule{
		{name: "base over HTTPS", set: set("urls", "{base: 'https://catalogd.example/catalogs/a'}")},
		{name: "base over HTTP", set: set("urls", "{base: 'http://catalogd.example/catalogs/a'}")},
		{name: "base that is not a URL", set: set("urls", "{base: catalogs}"), refused: "must be a valid URL"},
		{name: "base of another scheme", set: set("urls", "{base: 'ftp://catalogd.example/a'}"), refused: "scheme must be either http or https"},
		{name: "resolved by digest", set: set("resolvedSource", "{type: Image, image: {ref: quay.io/example/catalog"+digest+"}}")},
		{name: "resolved by tag", set: set("resolvedSource", "{type: Image, image: {ref: 'quay.io/example/catalog:v1'}}"), refused: "must be a reference with a digest"},
		{name: "resolved without an image", set: set("resolvedSource", "{type: Image}"), refused: "image is required when type is Image"},
		{name: "two conditions of one type", set: set("conditions",
			"[{type: A, status: 'True', reason: B, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}, {type: A, status: 'True', reason: B, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]"),
			refused: "Duplicate value"},
	} {
		t.Run(r.name, func(t *testing.T) {
			object := build(t, baseCatalog, nil)
			object.SetGenerateName("status-")
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}

			change(t, object, r.set)
			expect(t, c.Status().Update(t.Context(), object), r.refused)
			if err := c.Delete(t.Context(), object); err != nil {
				t.Error(err)
			}
		})
	}
}

package console_test

import (
	"testing"

	"github.com/mainstay-dev/mainstay/internal/console"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
	"github.com/mainstay-dev/mainstay/web"
)

// The types of the pages are generated from web/openapi.yaml.
func TestOpenAPIDocument(t *testing.T) {
	server, err := console.New(console.Options{Assets: web.Assets()})
	if err != nil {
		t.Fatal(err)
	}

	document, err := server.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	golden.CheckFile(t, "../../web/openapi.yaml", document)
}

package content

import (
	"fmt"
	"regexp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// digestedBlob is what the contentBuilder needs of a blob.
type digestedBlob struct {
	// meta has the blob if it has to be kept.
	meta fbc.Meta
	// number is the position of the blob in a Stored source.
	number uint32
	// facts are added to the model of the package.
	facts fbc.Summary
	// summary is the encoded summary of a bundle. It is empty if the bundle cannot be decoded.
	summary []byte
}

// digestBlob returns what the contentBuilder needs of a blob. It depends on this blob alone, so
// that blobs can be digested in parallel. Errors of the model are part of the facts.
func digestBlob(meta fbc.Meta) (digestedBlob, error) {
	d := digestedBlob{meta: meta, facts: fbc.Summarize(meta)}
	var err error
	switch meta.Schema {
	case fbc.SchemaPackage:
	case fbc.SchemaChannel, fbc.SchemaDeprecations:
		d.meta.Blob = nil
	case fbc.SchemaBundle:
		b, decodeErr := fbc.DecodeBundle(meta)
		if decodeErr != nil {
			// The facts have the error.
			break
		}
		if d.summary, err = encodeSummary(b); err != nil {
			err = wrapPackageError(meta.Package, fmt.Errorf("bundle %q: %w", meta.Name, err))
		}
	default:
		if err = validateCustomNames(meta.Schema, meta.Package); err != nil {
			err = fmt.Errorf("invalid custom schema meta: %w", err)
		}
	}

	return d, err
}

var customNamePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// validateCustomNames returns an error if the schema or package of a custom blob cannot be used
// in queries. The package may be empty.
func validateCustomNames(schema, pkg string) error {
	if !customNamePattern.MatchString(schema) {
		return fmt.Errorf("invalid schema %q: must match %s", schema, customNamePattern)
	}
	if pkg != "" && !customNamePattern.MatchString(pkg) {
		return fmt.Errorf("invalid package %q: must match %s", pkg, customNamePattern)
	}
	return nil
}

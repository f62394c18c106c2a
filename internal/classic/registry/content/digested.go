package content

import (
	"fmt"
	"regexp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// digested is what the builder needs of a blob.
type digested struct {
	// meta has the blob if it is to be kept.
	meta fbc.Meta
	// facts are for the model of the catalog.
	facts fbc.Summary
	// summary is the encoded summary of a bundle, empty when it cannot be read.
	summary []byte
}

// digest takes out of a blob what the builder needs. It looks at this blob alone, so that
// many can be digested at once. What is wrong with the blob is among the facts.
func digest(meta fbc.Meta) (digested, error) {
	d := digested{meta: meta, facts: fbc.Summarize(meta)}
	var err error
	switch meta.Schema {
	case fbc.SchemaPackage:
	case fbc.SchemaChannel, fbc.SchemaDeprecations:
		d.meta.Blob = nil
	case fbc.SchemaBundle:
		b, decodeErr := fbc.DecodeBundle(meta)
		if decodeErr != nil {
			// The facts say so.
			break
		}
		if d.summary, err = summarize(b); err != nil {
			err = inPackage(meta.Package, fmt.Errorf("bundle %q: %w", meta.Name, err))
		}
	default:
		if err = checkCustom(meta.Schema, meta.Package); err != nil {
			err = fmt.Errorf("invalid custom schema meta: %w", err)
		}
	}

	return d, err
}

var customRule = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// checkCustom refuses names that the registry cannot give blobs of a schema by that OLM
// does not define. A package is not needed.
func checkCustom(schema, pkg string) error {
	if !customRule.MatchString(schema) {
		return fmt.Errorf("invalid schema %q: must match %s", schema, customRule)
	}
	if pkg != "" && !customRule.MatchString(pkg) {
		return fmt.Errorf("invalid package %q: must match %s", pkg, customRule)
	}
	return nil
}

package fbc

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// DecodePackage reads an olm.package blob.
func DecodePackage(m Meta) (*Package, error) { return decode(m, SchemaPackage, (*decoder).pkg) }

// DecodeChannel reads an olm.channel blob.
func DecodeChannel(m Meta) (*Channel, error) { return decode(m, SchemaChannel, (*decoder).channel) }

// DecodeBundle reads an olm.bundle blob. The values of its properties are pieces of the
// blob.
func DecodeBundle(m Meta) (*Bundle, error) { return decode(m, SchemaBundle, (*decoder).bundle) }

// DecodeDeprecations reads an olm.deprecations blob.
func DecodeDeprecations(m Meta) (*Deprecations, error) {
	return decode(m, SchemaDeprecations, (*decoder).deprecations)
}

// decode reads a blob of a schema as encoding/json does. Fields that the schema does not
// have are left out.
func decode[T any](m Meta, schema string, read func(*decoder, *T)) (*T, error) {
	if m.Schema != schema {
		return nil, m.At.Wrap(fmt.Errorf("%s is not of the schema %s", m, schema))
	}

	value := new(T)
	d := decoder{cursor: jsontext.Cursor{Text: m.Blob}}
	if read(&d, value); !d.odd && d.cursor.Done() {
		return value, nil
	}

	value = new(T)
	if err := json.Unmarshal(m.Blob, value); err != nil {
		return nil, m.At.Wrap(fmt.Errorf("%s does not fit its schema: %w", m, err))
	}

	return value, nil
}

// String names the blob: its schema, package and name.
func (m Meta) String() string {
	s := "blob of schema " + m.Schema
	if m.Package != "" {
		s += fmt.Sprintf(", package %q", m.Package)
	}
	if m.Name != "" {
		s += fmt.Sprintf(", name %q", m.Name)
	}
	return s
}

// PackageName is the package that the blob says something of: its name for an
// olm.package blob, else its package, which may be empty.
func (m Meta) PackageName() string {
	if m.Schema == SchemaPackage {
		return m.Name
	}
	return m.Package
}

// LoadContent gathers what blobs say of one package. Those of other packages and
// those of schemas that OLM does not define are passed over.
//
// An *Error says that a blob does not fit its schema, or that there are two
// where OLM allows one. Other errors are those of the blobs' source.
func LoadContent(pkg string, metas iter.Seq2[Meta, error]) (*Content, error) {
	content := &Content{}
	for meta, err := range metas {
		if err != nil {
			return nil, err
		}
		if meta.PackageName() != pkg {
			continue
		}
		if err := content.add(meta); err != nil {
			return nil, err
		}
	}

	return content, nil
}

// add takes a blob in.
func (c *Content) add(meta Meta) error {
	switch meta.Schema {
	case SchemaPackage:
		if c.Package != nil {
			return meta.At.Wrap(fmt.Errorf("%s stands twice in the catalog", meta))
		}
		p, err := DecodePackage(meta)
		c.Package = p
		return err
	case SchemaDeprecations:
		if c.Deprecations != nil {
			return meta.At.Wrap(fmt.Errorf("%s stands twice in the catalog", meta))
		}
		d, err := DecodeDeprecations(meta)
		c.Deprecations = d
		return err
	case SchemaChannel:
		channel, err := DecodeChannel(meta)
		if err != nil {
			return err
		}
		c.Channels = append(c.Channels, *channel)
	case SchemaBundle:
		bundle, err := DecodeBundle(meta)
		if err != nil {
			return err
		}
		c.Bundles = append(c.Bundles, *bundle)
	}

	return nil
}

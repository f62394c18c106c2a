package fbc

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// DecodePackage decodes an olm.package blob.
func DecodePackage(m Meta) (*Package, error) {
	return decodeBlobOfSchema(m, SchemaPackage, (*decoder).decodePackage)
}

// DecodeChannel decodes an olm.channel blob.
func DecodeChannel(m Meta) (*Channel, error) {
	return decodeBlobOfSchema(m, SchemaChannel, (*decoder).decodeChannel)
}

// DecodeBundle decodes an olm.bundle blob. The values of its properties share memory with the
// blob.
func DecodeBundle(m Meta) (*Bundle, error) {
	return decodeBlobOfSchema(m, SchemaBundle, (*decoder).decodeBundle)
}

// DecodeDeprecations decodes an olm.deprecations blob.
func DecodeDeprecations(m Meta) (*Deprecations, error) {
	return decodeBlobOfSchema(m, SchemaDeprecations, (*decoder).decodeDeprecations)
}

// decodeBlobOfSchema decodes a blob of the given schema with the semantics of encoding/json.
// Fields that the schema does not define are dropped.
func decodeBlobOfSchema[T any](m Meta, schema string, read func(*decoder, *T)) (*T, error) {
	if m.Schema != schema {
		return nil, m.At.Wrap(fmt.Errorf("%s is not of the schema %s", m, schema))
	}

	value := new(T)
	d := decoder{fieldReader{cursor: jsontext.Cursor{Text: m.Blob}}}
	if read(&d, value); !d.unusual && d.cursor.Done() {
		return value, nil
	}

	value = new(T)
	if err := json.Unmarshal(m.Blob, value); err != nil {
		return nil, m.At.Wrap(fmt.Errorf("%s does not fit its schema: %w", m, err))
	}

	return value, nil
}

// String describes the blob by its schema, package and name.
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

// PackageName returns the package that the blob describes. This is the name of an olm.package
// blob and the package of any other blob, which may be empty.
func (m Meta) PackageName() string {
	if m.Schema == SchemaPackage {
		return m.Name
	}
	return m.Package
}

// LoadContent collects the blobs of one package. It skips blobs of other packages and of schemas
// that OLM does not define.
//
// It returns an *Error if a blob does not fit its schema, or if there are two blobs where OLM
// allows one. It returns other errors of the iterator unchanged.
func LoadContent(pkg string, metas iter.Seq2[Meta, error]) (*Content, error) {
	content := &Content{}
	for meta, err := range metas {
		if err != nil {
			return nil, err
		}
		if meta.PackageName() != pkg {
			continue
		}
		if err := content.decodeAndAddBlob(meta); err != nil {
			return nil, err
		}
	}

	return content, nil
}

// decodeAndAddBlob decodes a blob and adds it to the content.
func (c *Content) decodeAndAddBlob(meta Meta) error {
	switch meta.Schema {
	case SchemaPackage:
		if c.Package != nil {
			return meta.At.Wrap(fmt.Errorf("%s occurs twice in the catalog", meta))
		}
		p, err := DecodePackage(meta)
		c.Package = p
		return err
	case SchemaDeprecations:
		if c.Deprecations != nil {
			return meta.At.Wrap(fmt.Errorf("%s occurs twice in the catalog", meta))
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

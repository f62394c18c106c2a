package content

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/indexdb"
)

// applyDatabaseRecord replaces APIs, properties and dependencies in the summary of a bundle of
// a SQLite catalog by those of its record: the rows of the database as they are stored. The
// blob lacks the plural names of APIs and has dependencies of two types only, with the
// requirements among its properties.
func applyDatabaseRecord(d *digestedBlob) error {
	if d.meta.Schema != fbc.SchemaBundle || len(d.summary) == 0 {
		return nil
	}

	record, err := indexdb.DecodeRecord(d.meta.Blob)
	if err != nil {
		return wrapPackageError(d.meta.Package, fmt.Errorf("bundle %q: %w", d.meta.Name, err))
	}
	if record == nil {
		return nil
	}

	m := &registrypb.Bundle{}
	if err := proto.Unmarshal(d.summary, m); err != nil {
		return wrapPackageError(d.meta.Package, fmt.Errorf("bundle %q: %w", d.meta.Name, err))
	}

	m.ProvidedApis, m.RequiredApis = convertRecordedAPIs(record.Provides), convertRecordedAPIs(record.Requires)
	m.Properties, m.Dependencies = nil, nil
	for _, p := range record.Properties {
		m.Properties = append(m.Properties, &registrypb.Property{Type: p.Type, Value: p.Value})
	}

	for _, d := range record.Dependencies {
		m.Dependencies = append(m.Dependencies, &registrypb.Dependency{Type: d.Type, Value: d.Value})
	}

	d.summary, err = proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return err
}

func convertRecordedAPIs(apis []indexdb.API) []*registrypb.GroupVersionKind {
	var list []*registrypb.GroupVersionKind
	for _, api := range apis {
		list = append(list, &registrypb.GroupVersionKind{Group: api.Group, Version: api.Version, Kind: api.Kind, Plural: api.Plural})
	}
	return list
}

package content

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// summarize encodes the part of the protocol's message of a bundle that is the same in
// every channel and that lists give too: neither the manifests nor what the channel says.
//
// Properties that cannot be read are passed on and mean nothing. Those who validate refuse
// them.
func summarize(b *fbc.Bundle) ([]byte, error) {
	m := &registrypb.Bundle{CsvName: b.Name, PackageName: b.Package, BundlePath: b.Image, Version: version(b)}
	metadata := 0
	for _, p := range b.Properties {
		switch p.Type {
		case fbc.PropertyGVK:
			if api, ok := readGVK(p); ok {
				m.ProvidedApis = append(m.ProvidedApis, api)
			}
		case fbc.PropertyGVKRequired:
			if api, ok := readGVK(p); ok {
				m.RequiredApis = append(m.RequiredApis, api)
				m.Dependencies = append(m.Dependencies, &registrypb.Dependency{
					Type: fbc.PropertyGVK, Value: object("group", api.GetGroup(), "kind", api.GetKind(), "version", api.GetVersion()),
				})
			}

		case fbc.PropertyPackageRequired:
			var name, versions string
			if fields(p, map[string]*string{"packageName": &name, "versionRange": &versions}) {
				m.Dependencies = append(m.Dependencies, &registrypb.Dependency{
					Type: fbc.PropertyPackage, Value: object("packageName", name, "version", versions),
				})
			}

		case fbc.PropertyCSVMetadata:
			metadata++
			continue
		case fbc.PropertyBundleObject:
			continue
		}
		m.Properties = append(m.Properties, &registrypb.Property{Type: p.Type, Value: string(p.Value)})
	}

	if metadata > 1 {
		return nil, fmt.Errorf("parse properties: expected at most 1 property of type %q, found %d", fbc.PropertyCSVMetadata, metadata)
	}

	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// version returns the version of a bundle as its olm.package property has it.
func version(b *fbc.Bundle) (version string) {
	for _, p := range b.Properties {
		if p.Type == fbc.PropertyPackage && fields(p, map[string]*string{"version": &version}) {
			return version
		}
	}
	return ""
}

func readGVK(p fbc.Property) (*registrypb.GroupVersionKind, bool) {
	api := &registrypb.GroupVersionKind{}
	ok := fields(p, map[string]*string{"group": &api.Group, "version": &api.Version, "kind": &api.Kind})
	return api, ok
}

// fields reads strings of a property's value and tells whether it can be read. What the
// value does not have stays empty.
func fields(p fbc.Property, into map[string]*string) bool {
	if len(p.Value) == 0 || p.Value[0] != '{' {
		return false
	}

	for key, value := range jsontext.Members(p.Value) {
		target, wanted := into[string(key[1:len(key)-1])]
		if !wanted || string(value) == "null" {
			continue
		}
		var err error
		if *target, err = jsontext.Unquote(value); err != nil {
			return false
		}
	}

	return true
}

// object writes a JSON object of strings; keys and values alternate.
func object(fields ...string) string {
	out := []byte{'{'}
	for i, field := range fields {
		if i > 0 {
			out = append(out, ",:"[i%2])
		}
		out = jsontext.AppendQuoted(out, field)
	}

	return string(append(out, '}'))
}

// manifests returns the ClusterServiceVersion of a bundle, and all its manifests: those that
// the catalog holds, or else a ClusterServiceVersion of what olm.csv.metadata says of it.
// pkg is the olm.package blob, which has the icon.
func manifests(b *fbc.Bundle, pkg []byte) (csv string, manifests []string, err error) {
	var metadata json.RawMessage
	for i, p := range b.Properties {
		switch p.Type {
		case fbc.PropertyCSVMetadata:
			metadata = p.Value
		case fbc.PropertyBundleObject:
			manifest, err := readManifest(p)
			if err != nil {
				return "", nil, fmt.Errorf("parse property at index %d as bundle object: %w", i, err)
			}
			manifests = append(manifests, manifest)
			if csv == "" && isCSV(manifest) {
				csv = manifest
			}
		}
	}

	if csv == "" && metadata != nil {
		csv = csvOf(b, metadata, pkg)
		if len(manifests) == 0 {
			manifests = []string{csv}
		}
	}

	return csv, manifests, nil
}

// readManifest returns the manifest of an olm.bundle.object property as JSON.
func readManifest(p fbc.Property) (string, error) {
	var value struct {
		Data []byte `json:"data"`
	}
	if err := json.Unmarshal(p.Value, &value); err != nil {
		return "", err
	}

	manifest, _, err := jsontext.Compact(nil, value.Data, 0)
	if err != nil || manifest[0] != '{' {
		if manifest, err = yamlToJSON(value.Data); err != nil {
			return "", err
		}
	}

	return string(manifest), nil
}

// isCSV reports whether a manifest is a ClusterServiceVersion.
func isCSV(manifest string) bool {
	for key, value := range jsontext.Members([]byte(manifest)) {
		if string(key) == `"kind"` {
			return string(value) == `"ClusterServiceVersion"`
		}
	}
	return false
}

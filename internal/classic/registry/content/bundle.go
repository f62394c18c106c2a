package content

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// encodeSummary encodes the part of a bundle's protocol message that is the same in every
// channel. It leaves out the manifests and the fields of the channel.
//
// Properties that cannot be decoded are copied without effect on other fields. Validation
// refuses such bundles.
func encodeSummary(b *fbc.Bundle) ([]byte, error) {
	m := &registrypb.Bundle{CsvName: b.Name, PackageName: b.Package, BundlePath: b.Image, Version: bundleVersion(b)}
	metadata := 0
	for _, p := range b.Properties {
		switch p.Type {
		case fbc.PropertyGVK:
			if api, ok := decodeGVKProperty(p); ok {
				m.ProvidedApis = append(m.ProvidedApis, api)
			}
		case fbc.PropertyGVKRequired:
			if api, ok := decodeGVKProperty(p); ok {
				m.RequiredApis = append(m.RequiredApis, api)
				m.Dependencies = append(m.Dependencies, &registrypb.Dependency{
					Type: fbc.PropertyGVK, Value: encodeStringObject("group", api.GetGroup(), "kind", api.GetKind(), "version", api.GetVersion()),
				})
			}

		case fbc.PropertyPackageRequired:
			var name, versions string
			if decodeStringFields(p, map[string]*string{"packageName": &name, "versionRange": &versions}) {
				m.Dependencies = append(m.Dependencies, &registrypb.Dependency{
					Type: fbc.PropertyPackage, Value: encodeStringObject("packageName", name, "version", versions),
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

// bundleVersion returns the version in the olm.package property of a bundle, or "" if it has
// none.
func bundleVersion(b *fbc.Bundle) (version string) {
	for _, p := range b.Properties {
		if p.Type == fbc.PropertyPackage && decodeStringFields(p, map[string]*string{"version": &version}) {
			return version
		}
	}
	return ""
}

// decodeGVKProperty decodes the value of an olm.gvk or olm.gvk.required property.
func decodeGVKProperty(p fbc.Property) (*registrypb.GroupVersionKind, bool) {
	api := &registrypb.GroupVersionKind{}
	ok := decodeStringFields(p, map[string]*string{"group": &api.Group, "version": &api.Version, "kind": &api.Kind})
	return api, ok
}

// decodeStringFields decodes string fields of a property's value. It reports whether the value
// could be decoded. Fields that the value does not have are left unchanged.
func decodeStringFields(p fbc.Property, into map[string]*string) bool {
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

// encodeStringObject returns a JSON object of strings. Arguments are keys and values in turn.
func encodeStringObject(fields ...string) string {
	out := []byte{'{'}
	for i, field := range fields {
		if i > 0 {
			out = append(out, ",:"[i%2])
		}
		out = jsontext.AppendQuoted(out, field)
	}

	return string(append(out, '}'))
}

// bundleManifests returns the CSV of a bundle and all its manifests. If the catalog holds no
// manifests, the CSV is synthesized from the olm.csv.metadata property. pkg is the olm.package
// blob, which holds the icon.
func bundleManifests(b *fbc.Bundle, pkg []byte) (csv string, manifests []string, err error) {
	var metadata json.RawMessage
	for i, p := range b.Properties {
		switch p.Type {
		case fbc.PropertyCSVMetadata:
			metadata = p.Value
		case fbc.PropertyBundleObject:
			manifest, err := decodeManifest(p)
			if err != nil {
				return "", nil, fmt.Errorf("parse property at index %d as bundle object: %w", i, err)
			}
			manifests = append(manifests, manifest)
			if csv == "" && isCSVManifest(manifest) {
				csv = manifest
			}
		}
	}

	if csv == "" && metadata != nil {
		csv = synthesizeCSV(b, metadata, pkg)
		if len(manifests) == 0 {
			manifests = []string{csv}
		}
	}

	return csv, manifests, nil
}

// decodeManifest returns the manifest of an olm.bundle.object property as compact JSON.
func decodeManifest(p fbc.Property) (string, error) {
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

// isCSVManifest reports whether a manifest is a ClusterServiceVersion.
func isCSVManifest(manifest string) bool {
	for key, value := range jsontext.Members([]byte(manifest)) {
		if string(key) == `"kind"` {
			return string(value) == `"ClusterServiceVersion"`
		}
	}
	return false
}

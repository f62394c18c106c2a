package fbc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// bundleObject is the value of an olm.bundle.object property: a manifest.
type bundleObject struct {
	Data []byte `json:"data"`
}

// csvMetadata is the value of an olm.csv.metadata property: the parts of a bundle's
// ClusterServiceVersion that catalogs show to users.
type csvMetadata struct {
	Annotations           map[string]string `json:"annotations"`
	APIServiceDefinitions struct {
		Owned    []apiService `json:"owned"`
		Required []apiService `json:"required"`
	} `json:"apiServiceDefinitions"`
	CRDDescriptions struct {
		Owned    []apiDescription `json:"owned"`
		Required []apiDescription `json:"required"`
	} `json:"crdDescriptions"`
	Description    string            `json:"description"`
	DisplayName    string            `json:"displayName"`
	InstallModes   []installMode     `json:"installModes"`
	Keywords       []string          `json:"keywords"`
	Labels         map[string]string `json:"labels"`
	Links          []link            `json:"links"`
	Maintainers    []maintainer      `json:"maintainers"`
	Maturity       string            `json:"maturity"`
	MinKubeVersion string            `json:"minKubeVersion"`
	NativeAPIs     []GVK             `json:"nativeAPIs"`
	Provider       link              `json:"provider"`
}

type apiDescription struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Kind        string `json:"kind"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
	Resources   []struct {
		Name    string `json:"name"`
		Kind    string `json:"kind"`
		Version string `json:"version"`
	} `json:"resources"`
	StatusDescriptors []descriptor `json:"statusDescriptors"`
	SpecDescriptors   []descriptor `json:"specDescriptors"`
	ActionDescriptors []descriptor `json:"actionDescriptors"`
}

type apiService struct {
	apiDescription
	Group          string `json:"group"`
	DeploymentName string `json:"deploymentName"`
	ContainerPort  int32  `json:"containerPort"`
}

type descriptor struct {
	Path         string          `json:"path"`
	DisplayName  string          `json:"displayName"`
	Description  string          `json:"description"`
	XDescriptors []string        `json:"x-descriptors"`
	Value        json.RawMessage `json:"value"`
}

type installMode struct {
	Type      string `json:"type"`
	Supported bool   `json:"supported"`
}

type link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type maintainer struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

var (
	packagePropertyShape = newLazyShapeOfType[PackageProperty]()
	packageRequiredShape = newLazyShapeOfType[PackageRequired]()
	gvkShape             = newLazyShapeOfType[GVK]()
	csvMetadataShape     = newLazyShapeOfType[csvMetadata]()
	manifestShape        = newLazyShapeOfType[manifest]()
	manifestSpecShape    = newLazyShapeOfType[manifestSpec]()
)

// errMissingValue is the error for a property without a value, with the text of opm.
var errMissingValue = errors.New("unexpected end of JSON input")

// readBundleProperty reads one property of a bundle. As in opm, a property may have no type, and
// values of OLM's own types are only checked for their shape. Whether a requirement can be met is
// decided during resolution.
func (s *Summary) readBundleProperty(i int, p Property) {
	err := errMissingValue
	if len(p.Value) > 0 {
		err = s.bundle.readPropertyValue(p)
	}
	if err == nil {
		return
	}

	var object *manifestError
	if errors.As(err, &object) {
		step := fmt.Sprintf(object.step, i)
		s.addFaultf("read bundle objects: package %q, bundle %q: %s: %w", s.pkg, s.name, step, object.err)
		return
	}

	if p.Type == PropertyPackage {
		s.bundle.packagePropertyInvalid = true
	}

	s.addFaultf("parse properties for bundle %q: parse property[%d] of type %q: %w", s.name, i, p.Type, err)
}

// readPropertyValue reads the value of a property if OLM defines its type.
func (b *bundleSummary) readPropertyValue(p Property) error {
	switch p.Type {
	case PropertyPackage:
		b.packagePropertyCount++
		return readStringFields(packagePropertyShape(), p.Value, &b.packageProperty, &b.packageProperty.PackageName, &b.packageProperty.Version, &b.packageProperty.Release)
	case PropertyGVK, PropertyGVKRequired:
		gvk, err := readGVKProperty(p.Value)
		if err != nil {
			return err
		}
		if p.Type == PropertyGVK {
			b.Provides = append(b.Provides, gvk)
		} else {
			b.Requires = append(b.Requires, gvk)
		}

	case PropertyPackageRequired:
		required, err := readPackageRequired(p.Value)
		if err != nil {
			return err
		}
		b.RequiresPackages = append(b.RequiresPackages, required)

	case PropertyCSVMetadata:
		if c := (jsontext.Cursor{Text: p.Value}); !b.readCSVMetadata(&c) {
			return json.Unmarshal(p.Value, &csvMetadata{})
		}
	case PropertyBundleObject:
		b.hasObjects = true
		object, err := decodeBundleObject(p.Value)
		if err != nil {
			return err
		}
		if object.kind == kindCSV && !b.HasCSV {
			b.HasCSV, b.DisplayName = true, object.displayName
		}
	}

	return nil
}

// readStringFields reads an object whose fields are all strings. It falls back to encoding/json
// if the value is unusual.
func readStringFields[T any](s *shape, value []byte, whole *T, fields ...*string) error {
	if c := (jsontext.Cursor{Text: value}); s.scanStringFields(&c, fields...) {
		return nil
	}
	return json.Unmarshal(value, whole)
}

func readGVKProperty(value []byte) (GVK, error) {
	var gvk GVK
	err := readStringFields(gvkShape(), value, &gvk, &gvk.Group, &gvk.Kind, &gvk.Version)
	return gvk, err
}

func readPackageRequired(value []byte) (PackageRequired, error) {
	var required PackageRequired
	err := readStringFields(packageRequiredShape(), value, &required, &required.PackageName, &required.VersionRange)
	return required, err
}

// readCSVMetadata scans the value of an olm.csv.metadata property and reports whether it fits its
// schema. If it does not, the cursor stops within the value.
func (b *bundleSummary) readCSVMetadata(c *jsontext.Cursor) bool {
	return csvMetadataShape().scanObjectFields(c, func(f *shapeField) bool {
		before := *c
		if !f.shape.scanMatchingValue(c) {
			return false
		}
		switch f.name {
		case "displayName":
			if !b.HasCSV {
				scanStringInto(&before, &b.DisplayName)
			}
		case "installModes":
			b.InstallModes = supportedInstallModes(before.Value())
		}
		return true
	})
}

// supportedInstallModes returns the types of the supported install modes of a JSON list.
func supportedInstallModes(list []byte) []string {
	var modes []installMode
	_ = json.Unmarshal(list, &modes) // The shape was checked before.
	var supported []string
	for _, mode := range modes {
		if mode.Supported {
			supported = append(supported, mode.Type)
		}
	}

	return supported
}

// kindCSV is the kind of the manifest that names a bundle.
const kindCSV = "ClusterServiceVersion"

// manifest has the fields of a bundle object that are read.
type manifest struct {
	Kind string       `json:"kind"`
	Spec manifestSpec `json:"spec"`
}

type manifestSpec struct {
	DisplayName string `json:"displayName"`
}

// decodedManifest is the result of reading a bundle object.
type decodedManifest struct {
	// text is the manifest as compact JSON.
	text        []byte
	kind        string
	displayName string
}

// manifestError is the error for a manifest that cannot be read.
type manifestError struct {
	// step is the failed step, with a format verb for the index of the property.
	step string
	err  error
}

func (e *manifestError) Error() string { return e.err.Error() }
func (e *manifestError) Unwrap() error { return e.err }

// decodeBundleObject decodes the value of an olm.bundle.object property.
func decodeBundleObject(value []byte) (decodedManifest, error) {
	buffer := objectBuffers.Get().(*[]byte)
	defer objectBuffers.Put(buffer)
	var err error
	if *buffer, err = appendObjectData((*buffer)[:0], value); err != nil {
		return decodedManifest{}, &manifestError{step: "parse property at index %d as bundle object", err: err}
	}

	text, err := convertManifestToJSON(*buffer)
	if err != nil {
		return decodedManifest{}, &manifestError{step: "convert bundle object property at index %d to JSON", err: err}
	}

	o := decodedManifest{text: text}
	c := jsontext.Cursor{Text: text}
	manifestShape().scanObjectFields(&c, func(f *shapeField) bool {
		if f.name == "kind" {
			return scanStringInto(&c, &o.kind)
		}
		return manifestSpecShape().scanStringFields(&c, &o.displayName)
	})

	return o, nil
}

// objectBuffers are reused for manifests that are inspected and not kept.
var objectBuffers = sync.Pool{New: func() any { return new([]byte) }}

// appendObjectData appends the manifest in the value of an olm.bundle.object property.
func appendObjectData(into, value []byte) ([]byte, error) {
	for key, data := range jsontext.Members(value) {
		if string(key) != `"data"` || len(data) < 2 || data[0] != '"' {
			break
		}
		decoded, err := base64.StdEncoding.AppendDecode(into, data[1:len(data)-1])
		if err != nil || len(value) != len(`{"data":}`)+len(data) {
			break
		}
		return decoded, nil
	}

	// The value is unusual, for example a string with escapes.
	var o bundleObject
	err := json.Unmarshal(value, &o)
	return append(into, o.Data...), err
}

// convertManifestToJSON converts a manifest, which is JSON or YAML, to compact JSON.
func convertManifestToJSON(text []byte) ([]byte, error) {
	limits := Limits{}.withDefaults()
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		if compact, n, err := jsontext.Compact(nil, trimmed, limits.Depth); err == nil && n == len(trimmed) {
			return compact, nil
		}
	}

	if len(text) > limits.YAMLBytes {
		return nil, fmt.Errorf("is larger than %d bytes and not JSON", limits.YAMLBytes)
	}
	return appendYAMLAsJSON(nil, text, limits)
}

func (o decodedManifest) readAnnotations() map[string]json.RawMessage {
	var manifest struct {
		Metadata struct {
			Annotations map[string]json.RawMessage `json:"annotations"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(o.text, &manifest) // Invalid annotations count as missing.
	return manifest.Metadata.Annotations
}

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

// csvMetadata is the shape of the value of an olm.csv.metadata property: what a catalog
// tells people of a bundle's ClusterServiceVersion.
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
	packagePropertyShape = shapeFor[PackageProperty]()
	packageRequiredShape = shapeFor[PackageRequired]()
	gvkShape             = shapeFor[GVK]()
	csvMetadataShape     = shapeFor[csvMetadata]()
	manifestShape        = shapeFor[manifest]()
	specShape            = shapeFor[manifestSpec]()
)

// errNoValue is the error of a property without a value, in the words of the field.
var errNoValue = errors.New("unexpected end of JSON input")

// readProperty reads one property of a bundle. As in the field a property may have no type,
// and of the values of OLM's own types only the shape counts: whether a requirement can be
// met is decided when it is resolved.
func (s *Summary) readProperty(i int, p Property) {
	err := errNoValue
	if len(p.Value) > 0 {
		err = s.bundle.readValue(p)
	}
	if err == nil {
		return
	}

	var object *objectError
	if errors.As(err, &object) {
		step := fmt.Sprintf(object.step, i)
		s.fault("read bundle objects: package %q, bundle %q: %s: %w", s.pkg, s.name, step, object.err)
		return
	}

	if p.Type == PropertyPackage {
		s.bundle.unreadPackage = true
	}

	s.fault("parse properties for bundle %q: parse property[%d] of type %q: %w", s.name, i, p.Type, err)
}

// readValue reads the value of a property, as far as it is one of OLM's.
func (b *bundleSummary) readValue(p Property) error {
	switch p.Type {
	case PropertyPackage:
		b.packages++
		return readTexts(packagePropertyShape(), p.Value, &b.stated, &b.stated.PackageName, &b.stated.Version, &b.stated.Release)
	case PropertyGVK, PropertyGVKRequired:
		gvk, err := readGVK(p.Value)
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
		object, err := decodeObject(p.Value)
		if err != nil {
			return err
		}
		if object.kind == kindCSV && !b.HasCSV {
			b.HasCSV, b.DisplayName = true, object.displayName
		}
	}

	return nil
}

// readTexts reads an object whose fields are all texts: quickly, and else as
// encoding/json does.
func readTexts[T any](s *shape, value []byte, whole *T, fields ...*string) error {
	if c := (jsontext.Cursor{Text: value}); s.texts(&c, fields...) {
		return nil
	}
	return json.Unmarshal(value, whole)
}

func readGVK(value []byte) (GVK, error) {
	var gvk GVK
	err := readTexts(gvkShape(), value, &gvk, &gvk.Group, &gvk.Kind, &gvk.Version)
	return gvk, err
}

func readPackageRequired(value []byte) (PackageRequired, error) {
	var required PackageRequired
	err := readTexts(packageRequiredShape(), value, &required, &required.PackageName, &required.VersionRange)
	return required, err
}

// readCSVMetadata goes past the value of an olm.csv.metadata property and tells whether
// it fits. It stops within it when it does not.
func (b *bundleSummary) readCSVMetadata(c *jsontext.Cursor) bool {
	return csvMetadataShape().each(c, func(f *field) bool {
		before := *c
		if !f.shape.fits(c) {
			return false
		}
		switch f.name {
		case "displayName":
			if !b.HasCSV {
				readText(&before, &b.DisplayName)
			}
		case "installModes":
			b.InstallModes = supportedModes(before.Value())
		}
		return true
	})
}

// supportedModes returns the install modes that a list says are supported.
func supportedModes(list []byte) []string {
	var modes []installMode
	_ = json.Unmarshal(list, &modes) // it fits
	var supported []string
	for _, mode := range modes {
		if mode.Supported {
			supported = append(supported, mode.Type)
		}
	}

	return supported
}

// kindCSV is the kind of the manifest that a bundle is named for.
const kindCSV = "ClusterServiceVersion"

// manifest is what is looked at in a bundle's object.
type manifest struct {
	Kind string       `json:"kind"`
	Spec manifestSpec `json:"spec"`
}

type manifestSpec struct {
	DisplayName string `json:"displayName"`
}

// decodedObject is what is read of a manifest.
type decodedObject struct {
	// text is the manifest as compact JSON.
	text        []byte
	kind        string
	displayName string
}

// objectError says that a manifest cannot be read.
type objectError struct {
	// step at which it fails, with a verb for the index of the property.
	step string
	err  error
}

func (e *objectError) Error() string { return e.err.Error() }
func (e *objectError) Unwrap() error { return e.err }

// decodeObject reads the value of an olm.bundle.object property.
func decodeObject(value []byte) (decodedObject, error) {
	buffer := scratch.Get().(*[]byte)
	defer scratch.Put(buffer)
	var err error
	if *buffer, err = decodeData((*buffer)[:0], value); err != nil {
		return decodedObject{}, &objectError{step: "parse property at index %d as bundle object", err: err}
	}

	text, err := manifestJSON(*buffer)
	if err != nil {
		return decodedObject{}, &objectError{step: "convert bundle object property at index %d to JSON", err: err}
	}

	o := decodedObject{text: text}
	c := jsontext.Cursor{Text: text}
	manifestShape().each(&c, func(f *field) bool {
		if f.name == "kind" {
			return readText(&c, &o.kind)
		}
		return specShape().texts(&c, &o.displayName)
	})

	return o, nil
}

// scratch is used again for what is decoded to be looked at and not kept.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// decodeData appends the manifest that is in the value of a property.
func decodeData(into, value []byte) ([]byte, error) {
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

	// It is not the usual: perhaps the text has escapes.
	var o bundleObject
	err := json.Unmarshal(value, &o)
	return append(into, o.Data...), err
}

// manifestJSON returns a manifest, which is JSON or YAML, as compact JSON.
func manifestJSON(text []byte) ([]byte, error) {
	limits := Limits{}.withDefaults()
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		if compact, n, err := jsontext.Compact(nil, trimmed, limits.Depth); err == nil && n == len(trimmed) {
			return compact, nil
		}
	}

	if len(text) > limits.YAMLBytes {
		return nil, fmt.Errorf("is larger than %d bytes and not JSON", limits.YAMLBytes)
	}
	return appendYAML(nil, text, limits)
}

// annotations of a manifest.
func (o decodedObject) annotations() map[string]json.RawMessage {
	var manifest struct {
		Metadata struct {
			Annotations map[string]json.RawMessage `json:"annotations"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(o.text, &manifest) // what cannot be read is not there
	return manifest.Metadata.Annotations
}

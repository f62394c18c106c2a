package bundle

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

const (
	kindCSV = "ClusterServiceVersion"
	kindCRD = "CustomResourceDefinition"
)

// Load reads the bundle in the root of fsys: metadata/annotations.yaml, which must
// say that the format is registry+v1; the optional properties.yaml and
// dependencies.yaml beside it; and every file of the manifests folder, YAML or JSON
// with any number of objects. Files whose names start with a dot are passed over.
// Symbolic links, folders within the manifests folder, and anything that is no
// Kubernetes object are errors, as are none or several ClusterServiceVersions.
//
// Every error names the file that it is about. The values given back share no memory
// with fsys.
func Load(fsys fs.FS) (*Bundle, error) {
	files, err := ReadFiles(fsys)
	if err != nil {
		return nil, err
	}
	return files.Load()
}

// Load is Load of the files that were read.
func (f *Files) Load() (*Bundle, error) {
	annotations, err := f.statedAnnotations()
	if err != nil {
		return nil, err
	}
	for _, key := range []string{KeyManifests, KeyMetadata} {
		if _, err := folderOf(annotations, key, ""); err != nil {
			return nil, err
		}
	}
	if !f.HasManifests {
		return nil, fmt.Errorf("%s: %w", f.manifests, fs.ErrNotExist)
	}
	b := newBundle(annotations)
	if err := f.addObjects(b); err != nil {
		return nil, err
	}
	var stated, needed []fbc.Property
	if file, ok := f.metadataFile(path.Join(f.metadata, propertiesFile)); ok {
		if stated, err = readList(file, parseProperties); err != nil {
			return nil, err
		}
	}
	if file, ok := f.metadataFile(path.Join(f.metadata, dependenciesFile)); ok {
		if needed, err = readList(file, parseDependencies); err != nil {
			return nil, err
		}
	}
	if b.Version, err = semver.ParseTolerant(string(b.CSV.Spec.Version)); err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %q: spec.version %q is not a semantic version: %w", b.CSV.Name, b.CSV.Spec.Version, err)
	}
	if err := b.deriveProperties(stated, needed); err != nil {
		return nil, err
	}
	return b, nil
}

func newBundle(annotations map[string]string) *Bundle {
	return &Bundle{
		Package:        annotations[KeyPackage],
		Channels:       splitList(annotations[KeyChannels]),
		DefaultChannel: annotations[KeyDefaultChannel],
	}
}

// addObjects puts the objects of all manifests into their places in the bundle.
func (f *Files) addObjects(b *Bundle) error {
	var csvFile string
	for _, file := range f.Manifests {
		if file.Hidden() {
			continue
		}
		if file.Folder {
			return fmt.Errorf("%s: is a folder; the manifests folder may hold files only", file.Name)
		}
		if file.Err != nil {
			return file.fault()
		}
		objects, err := file.objects()
		if err != nil {
			return fmt.Errorf("%s: %w", file.Name, err)
		}
		for _, object := range objects {
			if object.GetKind() == kindCSV {
				if csvFile != "" {
					return fmt.Errorf("%s: a second ClusterServiceVersion beside the one in %s; a bundle has exactly one", file.Name, csvFile)
				}
				csvFile = file.Name
			}
			if err := b.add(object); err != nil {
				return fmt.Errorf("%s: %w", file.Name, err)
			}
		}
		if len(b.Manifests) > maxObjects {
			return fmt.Errorf("%s: the bundle holds more than %d objects", file.Name, maxObjects)
		}
	}
	if csvFile == "" {
		return fmt.Errorf("%s: holds no ClusterServiceVersion; a bundle has exactly one", f.manifests)
	}
	return nil
}

// objects are the objects of a file. The items of a List stand for themselves.
func (f File) objects() ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	for i, content := range f.Contents {
		found, err := flatten(content)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// add puts one object into its place in the bundle.
func (b *Bundle) add(object unstructured.Unstructured) error {
	b.Manifests = append(b.Manifests, object)
	switch object.GetKind() {
	case kindCSV:
		return b.setCSV(object)
	case kindCRD:
		b.CRDs = append(b.CRDs, object)
	default:
		b.Objects = append(b.Objects, object)
	}
	return nil
}

// setCSV decodes the CSV. Fields that the type does not have are passed over. Some
// authors leave the group out of its apiVersion; the kind is clear enough.
func (b *Bundle) setCSV(object unstructured.Unstructured) error {
	want := v1alpha1.GroupVersion
	if got := object.GetAPIVersion(); got != want.String() && got != want.Version {
		return fmt.Errorf("ClusterServiceVersion %q has apiVersion %q, it must be %q", object.GetName(), got, want.String())
	}
	if err := decodeCSV(object.Object, &b.CSV); err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: %w", object.GetName(), err)
	}
	b.CSV.APIVersion, b.CSV.Kind = want.String(), kindCSV
	if b.CSV.Spec.Version == "" {
		return fmt.Errorf("ClusterServiceVersion %q: spec.version is not set", b.CSV.Name)
	}
	return nil
}

// DecodeCSV decodes a ClusterServiceVersion. Fields that the type does not have are passed
// over, and the version may be any text.
func DecodeCSV(content map[string]any) (*v1alpha1.ClusterServiceVersion, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := decodeCSV(content, csv); err != nil {
		return nil, err
	}
	return csv, nil
}

func decodeCSV(content map[string]any, csv *v1alpha1.ClusterServiceVersion) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, csv)
}

// readList reads a file of the metadata folder by parse.
func readList(file File, parse func([]byte) ([]fbc.Property, error)) ([]fbc.Property, error) {
	if file.Err != nil {
		return nil, file.fault()
	}
	properties, err := parse(file.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name, err)
	}
	return properties, nil
}

// parseProperties reads a file of properties that the author states.
func parseProperties(data []byte) ([]fbc.Property, error) {
	var content struct {
		Properties []fbc.Property `json:"properties"`
	}
	if err := decodeOnly(data, &content); err != nil {
		return nil, err
	}
	for i, p := range content.Properties {
		if err := checkProperty(p); err != nil {
			return nil, fmt.Errorf("property %d: %w", i+1, err)
		}
	}
	return content.Properties, nil
}

// parseDependencies reads a file of what the author states the bundle to need, as the
// properties that say so.
func parseDependencies(data []byte) ([]fbc.Property, error) {
	dependencies, err := decodeDependencies(data)
	if err != nil {
		return nil, err
	}
	var properties []fbc.Property
	for i, d := range dependencies {
		err := checkProperty(d)
		if err == nil {
			d, err = dependencyProperty(d)
		}
		if err != nil {
			return nil, fmt.Errorf("dependency %d: %w", i+1, err)
		}
		properties = append(properties, d)
	}
	return properties, nil
}

func decodeDependencies(data []byte) ([]fbc.Property, error) {
	var content struct {
		Dependencies []fbc.Property `json:"dependencies"`
	}
	err := decodeOnly(data, &content)
	return content.Dependencies, err
}

// decodeOnly decodes the only document of a file, if it has one.
func decodeOnly(data []byte, into any) error {
	docs, err := documents(data)
	if err != nil {
		return err
	}
	switch len(docs) {
	case 0:
		return nil
	case 1:
		return kjson.UnmarshalCaseSensitivePreserveInts(docs[0], into)
	default:
		return fmt.Errorf("holds %d documents, it must hold one", len(docs))
	}
}

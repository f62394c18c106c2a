package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

const (
	kindCSV = "ClusterServiceVersion"
	kindCRD = "CustomResourceDefinition"
)

var (
	errNoAnnotations = errors.New("Could not find annotations file") //nolint:staticcheck // ST1005: the text that scripts look for
	errNoObjects     = errors.New("no bundle objects found")
	errNoCSV         = errors.New("no csv in bundle")
)

// Load reads the bundle in the root of fsys. It returns an error for a bundle without
// annotations or ClusterServiceVersion, and for a format other than registry+v1. It also
// returns an error for an invalid version, release or dependency, and for a bundle over the
// limits of this package.
//
// Other problems are recorded in Omitted and Warnings: files of the manifests folder that
// are not manifests, a second ClusterServiceVersion, and fields of the CSV with a wrong
// type. Annotations, dependencies and properties may be in any file of the metadata folder.
// The package may be empty, and the version any text.
//
// The returned values share no memory with fsys.
func Load(fsys fs.FS) (*Bundle, error) { return LoadImage(fsys, nil) }

// LoadImage is Load for the files of an image with labels. The labels specify the format of
// a bundle whose annotations do not.
func LoadImage(fsys fs.FS, labels map[string]string) (*Bundle, error) {
	files, err := ReadFiles(fsys)
	if err != nil {
		return nil, err
	}
	return files.Load(labels)
}

// Load is LoadImage for files that have been read.
func (f *Files) Load(labels map[string]string) (*Bundle, error) {
	annotations, name := f.Annotations()
	if err := checkMediaType(annotations, name, labels); err != nil {
		return nil, err
	}

	b := &Bundle{
		Package:        annotations[KeyPackage],
		Channels:       splitCommaList(annotations[KeyChannels]),
		DefaultChannel: annotations[KeyDefaultChannel],
	}

	if err := f.loadManifests(b); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, f.missingAnnotationsError()
	}

	if err := f.loadProperties(b); err != nil {
		return nil, fmt.Errorf("failed to derive properties: %w", err)
	}

	return b, nil
}

// loadProperties loads the properties and dependencies of the metadata, and derives the
// properties of the bundle.
func (f *Files) loadProperties(b *Bundle) error {
	stated, file := loadPropertyList(b, f.Metadata, propertiesFile, decodeProperties)
	for i, p := range stated {
		if err := checkKnownProperty(p); err != nil {
			return fmt.Errorf("%s: parse property[%d] of type %q: %w", file, i, p.Type, err)
		}
	}

	dependencies, file := loadPropertyList(b, f.Metadata, dependenciesFile, decodeDependencies)
	b.Dependencies = dependencies
	var needed []fbc.Property
	for i, d := range dependencies {
		property, err := PropertyOfDependency(d)
		if err != nil {
			return fmt.Errorf("%s: parse dependency[%d] of type %q: %w", file, i, d.Type, err)
		}
		needed = append(needed, property)
	}

	return b.deriveProperties(stated, needed)
}

// manifestLoader collects the manifests of a bundle.
type manifestLoader struct {
	*Bundle
	// csv is the ClusterServiceVersion, nil until it is found, and csvFile the file that
	// contains it.
	csv     *unstructured.Unstructured
	csvFile string
	// limitReached is set once the bundle has the maximum number of objects.
	limitReached bool
}

// loadManifests loads the objects of the manifests folder, including the CSV.
func (f *Files) loadManifests(b *Bundle) error {
	if !f.HasManifests {
		return fmt.Errorf("%s: %w: this is not a registry+v1 bundle", f.manifestsFolder, fs.ErrNotExist)
	}

	l := &manifestLoader{Bundle: b}
	for _, file := range f.Manifests {
		limit := (*limitError)(nil)
		switch {
		case file.Hidden():
		case file.Folder:
			b.addOmission("%s: is a folder; the manifests folder may hold files only", file.Name)
		case errors.As(file.Err, &limit):
			return file.wrappedError()
		default:
			l.addManifestFile(file)
		}
	}

	switch {
	case l.csv == nil && len(b.Manifests) == 0:
		return errNoObjects
	case l.csv == nil:
		return errNoCSV
	}

	b.Manifests = append(b.Manifests, *l.csv)
	return b.loadCSV(*l.csv)
}

// addManifestFile adds the objects of a manifest file. Catalogs contain only the object of
// the first document; the others are only installed.
func (l *manifestLoader) addManifestFile(file File) {
	first, err := file.FirstObject()
	switch {
	case err != nil:
		l.addOmissionWithWarning("%s: %v", file.Name, err)
		return
	case first == nil:
		l.addWarning("%s: is empty: it is ignored", file.Name)
		return
	case len(file.Documents) > 1 || file.Err != nil:
		l.addWarning("%s: holds more than one document: catalogs ignore all but the first", file.Name)
	}

	if first.GetKind() != kindCSV {
		l.Manifests = append(l.Manifests, *first)
	}

	for i, content := range file.Documents {
		if err := l.addManifestDocument(content, file.Name); err != nil {
			l.addOmission("%s: document %d: %v", file.Name, i+1, err)
			return
		}
	}

	if file.Err != nil {
		l.addOmission("%v", file.wrappedError())
	}
}

// addManifestDocument adds the objects of a document. Of several CSVs, the first by file
// name is used.
func (l *manifestLoader) addManifestDocument(content map[string]any, file string) error {
	objects := []unstructured.Unstructured{{Object: content}}
	if objects[0].GetKind() != kindCSV {
		var err error
		if objects, err = flattenList(content); err != nil {
			return err
		}
	}

	for _, object := range objects {
		switch kind := object.GetKind(); {
		case kind == kindCSV && l.csv != nil:
			l.addOmissionWithWarning("%s: a second ClusterServiceVersion beside the one in %s; a bundle has exactly one", file, l.csvFile)
		case kind == kindCSV:
			l.csv = &object
			l.csvFile = file
		case len(l.CRDs)+len(l.Objects) == maxObjects:
			if !l.limitReached {
				l.addOmission("%s: the bundle holds more than %d objects", file, maxObjects)
			}
			l.limitReached = true
		case kind == kindCRD:
			l.CRDs = append(l.CRDs, object)
		default:
			l.Objects = append(l.Objects, object)
		}
	}

	return nil
}

// loadPropertyList returns the list of the first metadata file that has one, and the name
// of that file. usual is the name under which such a file is expected; if that file cannot
// be read, it is recorded as omitted.
func loadPropertyList(b *Bundle, files []File, usual string, decode func([]byte) ([]fbc.Property, error)) (list []fbc.Property, name string) {
	for _, file := range files {
		list, err := readPropertyList(file, decode)
		if err != nil && path.Base(file.Name) == usual {
			b.addOmissionWithWarning("%v", err)
		}
		if len(list) > 0 {
			return list, file.Name
		}
	}

	return nil, ""
}

// Dependencies returns the dependencies of the first metadata file that has any.
func (f *Files) Dependencies() []fbc.Property { return f.firstPropertyList(decodeDependencies) }

// Properties returns the properties of the first metadata file that has any.
func (f *Files) Properties() []fbc.Property { return f.firstPropertyList(decodeProperties) }

func (f *Files) firstPropertyList(decode func([]byte) ([]fbc.Property, error)) []fbc.Property {
	list, _ := loadPropertyList(&Bundle{}, f.Metadata, "", decode)
	return list
}

// readPropertyList reads a file of the metadata folder with decode.
func readPropertyList(file File, decode func([]byte) ([]fbc.Property, error)) ([]fbc.Property, error) {
	if file.Err != nil {
		return nil, file.wrappedError()
	}

	properties, err := decode(file.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name, err)
	}
	return properties, nil
}

// decodeProperties decodes a file such as properties.yaml.
func decodeProperties(data []byte) ([]fbc.Property, error) {
	var content struct {
		Properties []fbc.Property `json:"properties"`
	}
	err := decodeSingleDocument(data, &content)
	return content.Properties, err
}

// decodeDependencies decodes a file such as dependencies.yaml.
func decodeDependencies(data []byte) ([]fbc.Property, error) {
	var content struct {
		Dependencies []fbc.Property `json:"dependencies"`
	}
	err := decodeSingleDocument(data, &content)
	return content.Dependencies, err
}

// decodeSingleDocument decodes the only document of a file. An empty file is valid.
func decodeSingleDocument(data []byte, into any) error {
	docs, err := splitDocuments(data)
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

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
// annotations or ClusterServiceVersion, of a format other than registry+v1, with a version,
// release or dependency that cannot be understood, or beyond the limits of this package.
//
// Everything else that is wrong is recorded in Omitted and Warnings: files of the manifests
// folder that are no manifests, a second ClusterServiceVersion, and fields of the CSV that
// are not of their type. Annotations, dependencies and properties may stand in any file of
// the metadata folder. The package may be empty, and the version any text.
//
// The returned values share no memory with fsys.
func Load(fsys fs.FS) (*Bundle, error) { return LoadImage(fsys, nil) }

// LoadImage is Load of the files of an image with labels. The labels state the format of a
// bundle whose annotations do not.
func LoadImage(fsys fs.FS, labels map[string]string) (*Bundle, error) {
	files, err := ReadFiles(fsys)
	if err != nil {
		return nil, err
	}
	return files.Load(labels)
}

// Load is LoadImage of files that have been read.
func (f *Files) Load(labels map[string]string) (*Bundle, error) {
	annotations, name := f.Annotations()
	if err := checkMediaType(annotations, name, labels); err != nil {
		return nil, err
	}

	b := &Bundle{
		Package:        annotations[KeyPackage],
		Channels:       splitList(annotations[KeyChannels]),
		DefaultChannel: annotations[KeyDefaultChannel],
	}

	if err := f.loadManifests(b); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, f.annotationsError()
	}

	if err := f.loadProperties(b); err != nil {
		return nil, fmt.Errorf("failed to derive properties: %w", err)
	}

	return b, nil
}

// loadProperties loads what the metadata states, and derives the properties of the bundle.
func (f *Files) loadProperties(b *Bundle) error {
	stated, file := loadList(b, f.Metadata, propertiesFile, decodeProperties)
	for i, p := range stated {
		if err := checkKnown(p); err != nil {
			return fmt.Errorf("%s: parse property[%d] of type %q: %w", file, i, p.Type, err)
		}
	}

	dependencies, file := loadList(b, f.Metadata, dependenciesFile, decodeDependencies)
	var needed []fbc.Property
	for i, d := range dependencies {
		property, err := dependencyProperty(d)
		if err != nil {
			return fmt.Errorf("%s: parse dependency[%d] of type %q: %w", file, i, d.Type, err)
		}
		needed = append(needed, property)
	}

	return b.deriveProperties(stated, needed)
}

// loader collects the manifests of a bundle.
type loader struct {
	*Bundle
	// csv is the ClusterServiceVersion, nil until it is found, and csvFile the file that
	// holds it.
	csv     *unstructured.Unstructured
	csvFile string
	// full is set once the bundle holds as many objects as it may.
	full bool
}

// loadManifests loads the objects of the manifests folder and the CSV among them.
func (f *Files) loadManifests(b *Bundle) error {
	if !f.HasManifests {
		return fmt.Errorf("%s: %w: this is no registry+v1 bundle", f.manifests, fs.ErrNotExist)
	}

	l := &loader{Bundle: b}
	for _, file := range f.Manifests {
		limit := (*limitError)(nil)
		switch {
		case file.Hidden():
		case file.Folder:
			b.omit("%s: is a folder; the manifests folder may hold files only", file.Name)
		case errors.As(file.Err, &limit):
			return file.fault()
		default:
			l.addFile(file)
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

// addFile adds the objects of a manifest file. Catalogs carry the object of the first
// document; the others are installed only.
func (l *loader) addFile(file File) {
	first, err := file.FirstObject()
	switch {
	case err != nil:
		l.omitWithWarning("%s: %v", file.Name, err)
		return
	case first == nil:
		l.warn("%s: is empty: it is passed over", file.Name)
		return
	case len(file.Contents) > 1 || file.Err != nil:
		l.warn("%s: holds more than one document: catalogs pass over all but the first", file.Name)
	}

	if first.GetKind() != kindCSV {
		l.Manifests = append(l.Manifests, *first)
	}

	for i, content := range file.Contents {
		if err := l.addDocument(content, file.Name); err != nil {
			l.omit("%s: document %d: %v", file.Name, i+1, err)
			return
		}
	}

	if file.Err != nil {
		l.omit("%v", file.fault())
	}
}

// addDocument adds the objects of a document. Of several CSVs the first by file name counts.
func (l *loader) addDocument(content map[string]any, file string) error {
	objects := []unstructured.Unstructured{{Object: content}}
	if objects[0].GetKind() != kindCSV {
		var err error
		if objects, err = flatten(content); err != nil {
			return err
		}
	}

	for _, object := range objects {
		switch kind := object.GetKind(); {
		case kind == kindCSV && l.csv != nil:
			l.omitWithWarning("%s: a second ClusterServiceVersion beside the one in %s; a bundle has exactly one", file, l.csvFile)
		case kind == kindCSV:
			l.csv, l.csvFile = &object, file
		case len(l.CRDs)+len(l.Objects) == maxObjects:
			if !l.full {
				l.omit("%s: the bundle holds more than %d objects", file, maxObjects)
			}
			l.full = true
		case kind == kindCRD:
			l.CRDs = append(l.CRDs, object)
		default:
			l.Objects = append(l.Objects, object)
		}
	}

	return nil
}

// loadList returns what the first metadata file that has a list of a sort states, and the
// name of that file. usual is the name under which such a file is expected: one that cannot
// be read is omitted.
func loadList(b *Bundle, files []File, usual string, decode func([]byte) ([]fbc.Property, error)) (list []fbc.Property, name string) {
	for _, file := range files {
		list, err := readList(file, decode)
		if err != nil && path.Base(file.Name) == usual {
			b.omitWithWarning("%v", err)
		}
		if len(list) > 0 {
			return list, file.Name
		}
	}

	return nil, ""
}

// Dependencies returns the dependencies that the first metadata file that has any states.
func (f *Files) Dependencies() []fbc.Property { return f.listed(decodeDependencies) }

// Properties returns the properties that the first metadata file that has any states.
func (f *Files) Properties() []fbc.Property { return f.listed(decodeProperties) }

func (f *Files) listed(decode func([]byte) ([]fbc.Property, error)) []fbc.Property {
	list, _ := loadList(&Bundle{}, f.Metadata, "", decode)
	return list
}

// readList reads a file of the metadata folder by decode.
func readList(file File, decode func([]byte) ([]fbc.Property, error)) ([]fbc.Property, error) {
	if file.Err != nil {
		return nil, file.fault()
	}

	properties, err := decode(file.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name, err)
	}
	return properties, nil
}

// decodeProperties decodes a file of properties that the author states.
func decodeProperties(data []byte) ([]fbc.Property, error) {
	var content struct {
		Properties []fbc.Property `json:"properties"`
	}
	err := decodeOnly(data, &content)
	return content.Properties, err
}

// decodeDependencies decodes a file of dependencies that the author states.
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

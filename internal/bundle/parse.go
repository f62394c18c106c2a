package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle/crdv1beta1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

var (
	errNoAnnotations = errors.New("Could not find annotations file") //nolint:staticcheck // ST1005: the text that scripts look for
	errNoObjects     = errors.New("no bundle objects found")
	errNoCSV         = errors.New("no csv in bundle")
	errRelease       = errors.New("release field must be a string or number")
)

// Parse reads the bundle in the root of fsys as the tools that make catalogs always
// have: they take many bundles that Load refuses. Of each manifest the first document
// counts, and of several CSVs the first by file name. Files that are no manifests,
// further documents and further CSVs are passed over with a warning. Annotations,
// dependencies and properties may stand in any file of the metadata folder. The package
// may be empty, the version any text. The CRDs that the CSV says it owns must be there.
func Parse(fsys fs.FS) (*Bundle, error) {
	files, err := ReadFiles(fsys)
	if err != nil {
		return nil, err
	}
	return files.Parse()
}

// Parse is Parse of the files that were read.
func (f *Files) Parse() (*Bundle, error) {
	annotations, name := f.Annotations()
	b := newBundle(annotations)
	if err := f.parseObjects(b); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, errNoAnnotations
	}
	if err := b.checkProvided(); err != nil {
		return nil, fmt.Errorf("error checking provided apis in bundle %s: %w", b.Name(), err)
	}
	stated := firstList(b, f.Metadata, propertiesFile, parseProperties)
	needed := firstList(b, f.Metadata, dependenciesFile, parseDependencies)
	if err := b.deriveProperties(stated, needed); err != nil {
		return nil, fmt.Errorf("failed to derive properties: %w", err)
	}
	return b, nil
}

// Dependencies are what the first metadata file that has any says that the bundle needs,
// as it stands there.
func (f *Files) Dependencies() []fbc.Property { return f.listed(decodeDependencies) }

// Properties are those that the first metadata file that has any states.
func (f *Files) Properties() []fbc.Property { return f.listed(parseProperties) }

func (f *Files) listed(decode func([]byte) ([]fbc.Property, error)) []fbc.Property {
	for _, file := range f.Metadata {
		if file.Err != nil {
			continue
		}
		if list, err := decode(file.Data); err == nil && len(list) > 0 {
			return list
		}
	}
	return nil
}

// firstList gives what the first file that parse finds anything in holds. usual is the
// name under which such a file is expected: what is wrong with it is worth a warning.
func firstList(b *Bundle, files []File, usual string, parse func([]byte) ([]fbc.Property, error)) []fbc.Property {
	for _, file := range files {
		list, err := readList(file, parse)
		if err != nil && strings.HasSuffix(file.Name, "/"+usual) {
			b.warn("%v: it is passed over", err)
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

// parseObjects puts the first object of each manifest into its place in the bundle.
func (f *Files) parseObjects(b *Bundle) error {
	var csv *unstructured.Unstructured
	for _, file := range f.Manifests {
		if file.Folder || file.Hidden() {
			continue
		}
		object, err := b.firstObject(file)
		if err != nil {
			return err
		}
		switch {
		case object == nil:
		case object.GetKind() != kindCSV:
			if err := b.add(*object); err != nil {
				return err
			}
		case csv != nil:
			b.warn("%s: a second ClusterServiceVersion is passed over", file.Name)
		default:
			csv = object
		}
	}
	if csv == nil && len(b.Manifests) == 0 {
		return errNoObjects
	}
	if csv == nil {
		return errNoCSV
	}
	b.Manifests = append(b.Manifests, *csv)
	return b.parseCSV(*csv)
}

// firstObject gives the object of the first document, nil if there is none.
func (b *Bundle) firstObject(file File) (*unstructured.Unstructured, error) {
	if limit := (*limitError)(nil); errors.As(file.Err, &limit) {
		return nil, file.fault()
	}
	object := file.Object()
	switch {
	case len(file.Contents) == 0 && file.Err != nil:
		b.warn("%v: it is passed over", file.fault())
	case len(file.Contents) == 0:
		b.warn("%s: is empty: it is passed over", file.Name)
	case object.GetKind() == "":
		b.warn("%s: is not a Kubernetes object, its kind is missing: it is passed over", file.Name)
	default:
		if len(file.Contents) > 1 || file.Err != nil {
			b.warn("%s: holds more than one document: all but the first are passed over", file.Name)
		}
		return object, nil
	}
	return nil, nil
}

// neededOfCSV are the fields of a CSV's spec without which a blob would say something
// else of the bundle.
var neededOfCSV = []string{
	"apiservicedefinitions", "customresourcedefinitions", "install", "relatedImages", "release", "replaces", "skips", "version",
}

// parseCSV decodes the CSV. Of what a catalog does not need, fields that are not of their
// type are passed over.
func (b *Bundle) parseCSV(object unstructured.Unstructured) error {
	if err := decodeCSV(object.Object, &b.CSV); err != nil {
		if err := b.parseFields(object); err != nil {
			return err
		}
	}
	b.CSV.APIVersion, b.CSV.Kind = v1alpha1.GroupVersion.String(), kindCSV
	if version, err := semver.ParseTolerant(string(b.CSV.Spec.Version)); err == nil {
		b.Version = version
	}
	return nil
}

// parseFields decodes a CSV that is not of its type field by field.
func (b *Bundle) parseFields(object unstructured.Unstructured) error {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	metadata := map[string]any{"metadata": object.Object["metadata"]}
	var csv v1alpha1.ClusterServiceVersion
	if err := decodeCSV(metadata, &csv); err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: %w", object.GetName(), err)
	}
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		field := map[string]any{name: spec[name]}
		var probe v1alpha1.ClusterServiceVersion
		err := decodeCSV(map[string]any{"spec": field}, &probe)
		if err == nil {
			err = decodeCSV(map[string]any{"spec": field}, &csv)
		}
		switch {
		case err == nil:
		case name == "release":
			return fmt.Errorf("failed to derive properties: %w", errRelease)
		case slices.Contains(neededOfCSV, name):
			return fmt.Errorf("ClusterServiceVersion %q: spec.%s: %w", object.GetName(), name, err)
		default:
			b.warn("ClusterServiceVersion %q: spec.%s is passed over: %v", object.GetName(), name, err)
		}
	}
	b.CSV = csv
	return nil
}

// providedAPI is an API as a CSV or a CRD names it.
type providedAPI struct{ group, version, kind, plural string }

func (a providedAPI) String() string {
	return fmt.Sprintf("%s/%s/%s (%s)", a.group, a.version, a.kind, a.plural)
}

// checkProvided says whether every CRD that the CSV owns is in the bundle.
func (b *Bundle) checkProvided() error {
	found := map[providedAPI]struct{}{}
	for _, crd := range b.CRDs {
		if err := checkCRD(crd); err != nil {
			return err
		}
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		for _, gvk := range crdGVKs(crd) {
			found[providedAPI{gvk.Group, gvk.Version, gvk.Kind, plural}] = struct{}{}
		}
	}
	for _, api := range b.CSV.Spec.APIServiceDefinitions.Owned {
		found[providedAPI{api.Group, api.Version, api.Kind, api.Name}] = struct{}{}
	}
	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		plural, group, err := splitCRDName(owned.Name)
		if err != nil {
			return err
		}
		api := providedAPI{group, owned.Version, owned.Kind, plural}
		if _, ok := found[api]; !ok {
			return fmt.Errorf("couldn't find %v in bundle. found: %v", api, found)
		}
	}
	return nil
}

// checkCRD says whether a CRD is of its type. Other versions than the two that there were
// are left to those who use them.
func checkCRD(crd unstructured.Unstructured) error {
	var into any
	switch crd.GetAPIVersion() {
	case apiextensionsv1.SchemeGroupVersion.String():
		into = &apiextensionsv1.CustomResourceDefinition{}
	case crdv1beta1.APIVersion:
		into = &crdv1beta1.CustomResourceDefinition{}
	default:
		return nil
	}
	raw, err := json.Marshal(crd.Object)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
	}
	if err != nil {
		return fmt.Errorf("error decoding %s CRD: %w", crd.GroupVersionKind().Version, err)
	}
	return nil
}

// splitCRDName takes the name of a CRD apart.
func splitCRDName(name string) (plural, group string, err error) {
	plural, group, found := strings.Cut(name, ".")
	if !found {
		return "", "", fmt.Errorf("couldn't parse plural.group from crd name: %s", name)
	}
	return plural, group, nil
}

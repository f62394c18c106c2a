package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/blang/semver/v4"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// MediaType is the format of the bundles that this package reads.
const MediaType = "registry+v1"

// Keys of metadata/annotations.yaml; a bundle image carries the same as labels.
const (
	KeyMediaType      = "operators.operatorframework.io.bundle.mediatype.v1"
	KeyManifests      = "operators.operatorframework.io.bundle.manifests.v1"
	KeyMetadata       = "operators.operatorframework.io.bundle.metadata.v1"
	KeyPackage        = "operators.operatorframework.io.bundle.package.v1"
	KeyChannels       = "operators.operatorframework.io.bundle.channels.v1"
	KeyDefaultChannel = "operators.operatorframework.io.bundle.channel.default.v1"
)

const annotationsFile = "metadata/annotations.yaml"

// Limits on what is read. The largest file of real bundles is about 1 MiB, the
// deepest CRD schema 34 levels, and an API server takes no object above 1.5 MiB; each
// limit leaves several times that.
const (
	maxFileBytes  = 8 << 20
	maxTotalBytes = 64 << 20
	maxFiles      = 1000
	maxObjects    = 2000
	maxDepth      = 200
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
	r := &reader{fsys: fsys}
	annotations, err := r.annotations()
	if err != nil {
		return nil, err
	}
	b := &Bundle{
		Package:        annotations[KeyPackage],
		Channels:       splitList(annotations[KeyChannels]),
		DefaultChannel: annotations[KeyDefaultChannel],
	}
	manifests, err := folder(annotations, KeyManifests, "manifests")
	if err != nil {
		return nil, err
	}
	if err := r.manifests(b, manifests); err != nil {
		return nil, err
	}
	metadata, err := folder(annotations, KeyMetadata, "metadata")
	if err != nil {
		return nil, err
	}
	stated, err := r.properties(path.Join(metadata, "properties.yaml"))
	if err != nil {
		return nil, err
	}
	needed, err := r.dependencies(path.Join(metadata, "dependencies.yaml"))
	if err != nil {
		return nil, err
	}
	if err := b.deriveProperties(stated, needed); err != nil {
		return nil, err
	}
	return b, nil
}

// folder is the path of a folder that the annotations name under key.
func folder(annotations map[string]string, key, unset string) (string, error) {
	name := annotations[key]
	if name == "" {
		return unset, nil
	}
	clean := path.Clean(strings.TrimPrefix(name, "/"))
	if !fs.ValidPath(clean) || clean == "." {
		return "", fmt.Errorf("%s: %s: %q is not a folder of the bundle", annotationsFile, key, name)
	}
	return clean, nil
}

func splitList(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// reader reads files of a bundle and counts what it read.
type reader struct {
	fsys  fs.FS
	total int
}

// file reads a file. It and the folders above it must not be symbolic links, which
// could lead out of the bundle.
func (r *reader) file(name string) ([]byte, error) {
	parts := strings.Split(name, "/")
	for i := range parts {
		info, err := fs.Lstat(r.fsys, path.Join(parts[:i+1]...))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, bare(err))
		}
		if last := i == len(parts)-1; last && !info.Mode().IsRegular() || !last && !info.IsDir() {
			return nil, fmt.Errorf("%s: must be a regular file, and neither it nor a folder above it a symbolic link", name)
		}
	}
	f, err := r.fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, bare(err))
	}
	defer func() { _ = f.Close() }() // It was only read.
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, bare(err))
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s: is larger than the %d bytes that a file may have", name, maxFileBytes)
	}
	if r.total += len(data); r.total > maxTotalBytes {
		return nil, fmt.Errorf("%s: the bundle is larger than the %d bytes that it may have", name, maxTotalBytes)
	}
	return data, nil
}

// bare takes the operation and the path out of an error: the path may be one of the
// machine, and the caller names the file as the bundle knows it.
func bare(err error) error {
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// annotations reads metadata/annotations.yaml.
func (r *reader) annotations() (map[string]string, error) {
	data, err := r.file(annotationsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: this is no registry+v1 bundle", err)
	}
	if err != nil {
		return nil, err
	}
	// This decoder, unlike the one for manifests, keeps the digits of a number that
	// stands where a string is wanted: a channel 4.10 written without quotes stays 4.10.
	var content struct {
		Annotations map[string]string `yaml:"annotations"`
	}
	if err := checkAliases(data); err != nil {
		return nil, fmt.Errorf("%s: %w", annotationsFile, err)
	}
	if err := guard(func() error { return yaml.Unmarshal(data, &content) }); err != nil {
		return nil, fmt.Errorf("%s: %w", annotationsFile, err)
	}
	for key, value := range content.Annotations {
		content.Annotations[key] = strings.TrimSpace(value)
	}
	switch mediaType := content.Annotations[KeyMediaType]; mediaType {
	case MediaType:
	case "":
		return nil, fmt.Errorf("%s: %s is not set: it must be %q", annotationsFile, KeyMediaType, MediaType)
	default:
		return nil, fmt.Errorf("%s: %s: the bundle format %q is not supported, only %q", annotationsFile, KeyMediaType, mediaType, MediaType)
	}
	if content.Annotations[KeyPackage] == "" {
		return nil, fmt.Errorf("%s: %s is not set: it must name the package", annotationsFile, KeyPackage)
	}
	return content.Annotations, nil
}

// manifests reads every file of the folder into b.
func (r *reader) manifests(b *Bundle, folder string) error {
	entries, err := fs.ReadDir(r.fsys, folder)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, bare(err))
	}
	if len(entries) > maxFiles {
		return fmt.Errorf("%s: holds %d files, more than the %d that it may have", folder, len(entries), maxFiles)
	}
	var csvFile string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		name := path.Join(folder, entry.Name())
		if entry.IsDir() {
			return fmt.Errorf("%s: is a folder; the manifests folder may hold files only", name)
		}
		objects, err := r.objects(name)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if object.GetKind() == kindCSV {
				if csvFile != "" {
					return fmt.Errorf("%s: a second ClusterServiceVersion beside the one in %s; a bundle has exactly one", name, csvFile)
				}
				csvFile = name
			}
			if err := b.add(object); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if n := len(b.CRDs) + len(b.Objects); n > maxObjects {
			return fmt.Errorf("%s: the bundle holds more than %d objects", name, maxObjects)
		}
	}
	if csvFile == "" {
		return fmt.Errorf("%s: holds no ClusterServiceVersion; a bundle has exactly one", folder)
	}
	return nil
}

// add puts one object into its place in the bundle.
func (b *Bundle) add(object unstructured.Unstructured) error {
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
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: %w", object.GetName(), err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &b.CSV); err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: %w", object.GetName(), err)
	}
	b.CSV.APIVersion, b.CSV.Kind = want.String(), kindCSV
	version := string(b.CSV.Spec.Version)
	if version == "" {
		return fmt.Errorf("ClusterServiceVersion %q: spec.version is not set", b.CSV.Name)
	}
	if b.Version, err = semver.ParseTolerant(version); err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: spec.version %q is not a semantic version: %w", b.CSV.Name, version, err)
	}
	return nil
}

// properties reads the properties that the author states, none if there is no file.
func (r *reader) properties(name string) ([]fbc.Property, error) {
	var content struct {
		Properties []fbc.Property `json:"properties"`
	}
	if err := r.optional(name, &content); err != nil {
		return nil, err
	}
	for i, p := range content.Properties {
		if err := checkProperty(p); err != nil {
			return nil, fmt.Errorf("%s: property %d: %w", name, i+1, err)
		}
	}
	return content.Properties, nil
}

// dependencies reads what the author states the bundle to need, as properties; none
// if there is no file.
func (r *reader) dependencies(name string) ([]fbc.Property, error) {
	var content struct {
		Dependencies []fbc.Property `json:"dependencies"`
	}
	if err := r.optional(name, &content); err != nil {
		return nil, err
	}
	var properties []fbc.Property
	for i, d := range content.Dependencies {
		err := checkProperty(d)
		if err == nil {
			d, err = dependencyProperty(d)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: dependency %d: %w", name, i+1, err)
		}
		properties = append(properties, d)
	}
	return properties, nil
}

// optional decodes the only document of a file that need not be there.
func (r *reader) optional(name string, into any) error {
	data, err := r.file(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	docs, err := documents(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(docs) == 0 {
		return nil
	}
	if len(docs) > 1 {
		return fmt.Errorf("%s: holds %d documents, it must hold one", name, len(docs))
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(docs[0], into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

package bundle

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MediaType is the format of the bundles that this package reads.
const MediaType = "registry+v1"

// Media types of folders that are not registry+v1 bundles.
const (
	// MediaTypePlain is a folder of manifests without a ClusterServiceVersion.
	MediaTypePlain = "plain"
	// MediaTypeHelm is a Helm chart.
	MediaTypeHelm = "helm"
)

// Keys of metadata/annotations.yaml. A bundle image has them as labels.
const (
	KeyMediaType      = "operators.operatorframework.io.bundle.mediatype.v1"
	KeyManifests      = "operators.operatorframework.io.bundle.manifests.v1"
	KeyMetadata       = "operators.operatorframework.io.bundle.metadata.v1"
	KeyPackage        = "operators.operatorframework.io.bundle.package.v1"
	KeyChannels       = "operators.operatorframework.io.bundle.channels.v1"
	KeyDefaultChannel = "operators.operatorframework.io.bundle.channel.default.v1"
)

// parseAnnotations parses a file such as metadata/annotations.yaml.
func parseAnnotations(data []byte) (map[string]string, error) {
	// This decoder, unlike the one for manifests, keeps the digits of a number in place of
	// a string: a channel 4.10 without quotes stays 4.10.
	var content struct {
		Annotations map[string]string `yaml:"annotations"`
	}
	if err := checkAliasExpansion(data); err != nil {
		return nil, err
	}
	if err := recoverParserPanic(func() error { return yaml.Unmarshal(data, &content) }); err != nil {
		return nil, err
	}

	for key, value := range content.Annotations {
		content.Annotations[key] = strings.TrimSpace(value)
	}

	return content.Annotations, nil
}

// checkMediaType returns an error for a bundle of another format. The annotation takes
// precedence over the label of the image. A bundle that has neither is a registry+v1
// bundle.
func checkMediaType(annotations map[string]string, file string, labels map[string]string) error {
	source, mediaType := file, annotations[KeyMediaType]
	if mediaType == "" {
		source, mediaType = "label of the image", strings.TrimSpace(labels[KeyMediaType])
	}
	if mediaType == "" || mediaType == MediaType {
		return nil
	}
	return fmt.Errorf("%s: %s: the bundle format %q is not supported, only %q", source, KeyMediaType, mediaType, MediaType)
}

// missingAnnotationsError returns the error of a bundle without annotations. It includes
// what is wrong with the file in which they are expected.
func (f *Files) missingAnnotationsError() error {
	file, ok := f.findMetadataFile(annotationsFile)
	if !ok {
		return errNoAnnotations
	}

	err := file.Err
	if err == nil {
		_, err = parseAnnotations(file.Data)
	}
	if err == nil {
		return errNoAnnotations
	}

	return fmt.Errorf("%w: %s: %w", errNoAnnotations, annotationsFile, err)
}

// Annotations returns the annotations of the first metadata file that has any, regardless of its
// name, and the name of that file. Both are empty when there is none.
func (f *Files) Annotations() (annotations map[string]string, name string) {
	for _, file := range f.Metadata {
		if file.Err != nil {
			continue
		}
		if annotations, err := parseAnnotations(file.Data); err == nil && len(annotations) > 0 {
			return annotations, file.Name
		}
	}

	return nil, ""
}

// folderFromAnnotations returns the folder that the annotations name under key, or usual
// when they name none.
func folderFromAnnotations(annotations map[string]string, key, usual string) string {
	name := strings.TrimPrefix(annotations[key], "/")
	clean := path.Clean(name)
	if name == "" || !fs.ValidPath(clean) || clean == "." {
		return usual
	}
	return clean
}

// splitCommaList returns the items of a list with commas, without spaces around them and
// without empty items.
func splitCommaList(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// Description has the values of a bundle's annotations and of its image's labels.
type Description struct {
	MediaType string
	Package   string
	// Channels are separated by commas.
	Channels string
	// DefaultChannel may be empty.
	DefaultChannel string
}

// annotation is a key of metadata/annotations.yaml with its value.
type annotation struct{ key, value string }

// orderedAnnotations returns the annotations in the order of the labels of a Dockerfile.
func (d Description) orderedAnnotations() []annotation {
	pairs := []annotation{
		{KeyMediaType, d.MediaType},
		{KeyManifests, FolderManifests + "/"},
		{KeyMetadata, FolderMetadata + "/"},
		{KeyPackage, d.Package},
		{KeyChannels, d.Channels},
	}
	if d.DefaultChannel != "" {
		pairs = append(pairs, annotation{KeyDefaultChannel, d.DefaultChannel})
	}
	return pairs
}

// checkControlCharacters returns an error for a value that would break its line of a
// Dockerfile.
func (d Description) checkControlCharacters() error {
	for _, p := range d.orderedAnnotations() {
		if strings.ContainsFunc(p.value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%s: %q contains a control character, which is not allowed", p.key, p.value)
		}
	}
	return nil
}

// AnnotationsFile returns the content of metadata/annotations.yaml, with sorted keys.
func (d Description) AnnotationsFile() ([]byte, error) {
	if err := d.checkControlCharacters(); err != nil {
		return nil, err
	}

	annotations := map[string]string{}
	for _, p := range d.orderedAnnotations() {
		annotations[p.key] = p.value
	}

	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(map[string]any{"annotations": annotations}); err != nil {
		return nil, err
	}

	return text.Bytes(), nil
}

// Compare returns how the annotations of an existing annotations.yaml differ from d, in the
// order of a Dockerfile's labels. Additional annotations are ignored.
func (d Description) Compare(existing []byte) ([]string, error) {
	annotations, err := parseAnnotations(existing)
	if err != nil {
		return nil, err
	}

	var differences []string
	for _, p := range d.orderedAnnotations() {
		switch value, ok := annotations[p.key]; {
		case !ok:
			differences = append(differences, "Missing field: "+p.key)
		case value != p.value:
			differences = append(differences, fmt.Sprintf("Expect field %q to have value %q instead of %q", p.key, p.value, value))
		}
	}

	return differences, nil
}

// Dockerfile returns the content of bundle.Dockerfile: an image that is built from base and
// contains the two folders. The folders are paths within the build context with forward
// slashes.
func (d Description) Dockerfile(base, manifests, metadata string) ([]byte, error) {
	if err := d.checkControlCharacters(); err != nil {
		return nil, err
	}

	for _, text := range []string{base, manifests, metadata} {
		if strings.ContainsAny(text, "\r\n") {
			return nil, fmt.Errorf("%q contains a line break, which is not allowed in a Dockerfile", text)
		}
	}

	var text bytes.Buffer
	fmt.Fprintf(&text, "FROM %s\n\n", base)
	for _, p := range d.orderedAnnotations() {
		fmt.Fprintf(&text, "LABEL %s=%s\n", p.key, p.value)
	}

	// Only the default channel is preceded by an empty line, as in existing tools, so that
	// files in version control do not change.
	if d.DefaultChannel != "" {
		text.WriteByte('\n')
	}

	fmt.Fprintf(&text, "COPY %s /%s/\nCOPY %s /%s/\n", manifests, FolderManifests, metadata, FolderMetadata)
	return text.Bytes(), nil
}

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

// Media types of folders that are no registry+v1 bundles.
const (
	// MediaTypePlain is a folder of manifests without a ClusterServiceVersion.
	MediaTypePlain = "plain"
	// MediaTypeHelm is a Helm chart.
	MediaTypeHelm = "helm"
)

// Keys of metadata/annotations.yaml; a bundle image carries the same as labels.
const (
	KeyMediaType      = "operators.operatorframework.io.bundle.mediatype.v1"
	KeyManifests      = "operators.operatorframework.io.bundle.manifests.v1"
	KeyMetadata       = "operators.operatorframework.io.bundle.metadata.v1"
	KeyPackage        = "operators.operatorframework.io.bundle.package.v1"
	KeyChannels       = "operators.operatorframework.io.bundle.channels.v1"
	KeyDefaultChannel = "operators.operatorframework.io.bundle.channel.default.v1"
)

// parseAnnotations reads a file such as metadata/annotations.yaml.
func parseAnnotations(data []byte) (map[string]string, error) {
	// This decoder, unlike the one for manifests, keeps the digits of a number that
	// stands where a string is wanted: a channel 4.10 written without quotes stays 4.10.
	var content struct {
		Annotations map[string]string `yaml:"annotations"`
	}
	if err := checkAliases(data); err != nil {
		return nil, err
	}
	if err := guard(func() error { return yaml.Unmarshal(data, &content) }); err != nil {
		return nil, err
	}

	for key, value := range content.Annotations {
		content.Annotations[key] = strings.TrimSpace(value)
	}

	return content.Annotations, nil
}

// checkMediaType refuses a bundle of another format. The annotation decides, else the label
// of the image; a bundle that has neither is a registry+v1 bundle.
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

// annotationsError returns the error of a bundle without annotations. It names the fault of
// the file in which they are expected.
func (f *Files) annotationsError() error {
	file, ok := f.metadataFile(annotationsFile)
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

// Annotations are the annotations of the first metadata file that has any, whatever its
// name, and that file's name. Both are empty when there is none.
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

// folderOf returns the folder of the bundle that the annotations name under key, and the
// usual one when they name none.
func folderOf(annotations map[string]string, key, usual string) string {
	name := strings.TrimPrefix(annotations[key], "/")
	clean := path.Clean(name)
	if name == "" || !fs.ValidPath(clean) || clean == "." {
		return usual
	}
	return clean
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

// Description is what the annotations of a bundle say of it, and the labels of its image.
type Description struct {
	MediaType string
	Package   string
	// Channels are separated by commas.
	Channels string
	// DefaultChannel may be empty.
	DefaultChannel string
}

type pair struct{ key, value string }

// pairs are the keys and values, in the order in which a Dockerfile gives them.
func (d Description) pairs() []pair {
	pairs := []pair{
		{KeyMediaType, d.MediaType},
		{KeyManifests, FolderManifests + "/"},
		{KeyMetadata, FolderMetadata + "/"},
		{KeyPackage, d.Package},
		{KeyChannels, d.Channels},
	}
	if d.DefaultChannel != "" {
		pairs = append(pairs, pair{KeyDefaultChannel, d.DefaultChannel})
	}
	return pairs
}

// check refuses what would not stay within its line of a Dockerfile.
func (d Description) check() error {
	for _, p := range d.pairs() {
		if strings.ContainsFunc(p.value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%s: %q holds a control character: name it without", p.key, p.value)
		}
	}
	return nil
}

// AnnotationsFile is the text of metadata/annotations.yaml, its keys sorted.
func (d Description) AnnotationsFile() ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}

	annotations := map[string]string{}
	for _, p := range d.pairs() {
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

// Compare says how the annotations of an existing annotations.yaml differ from d, in
// the order of a Dockerfile's labels. Further annotations are no difference.
func (d Description) Compare(existing []byte) ([]string, error) {
	annotations, err := parseAnnotations(existing)
	if err != nil {
		return nil, err
	}

	var differences []string
	for _, p := range d.pairs() {
		switch value, ok := annotations[p.key]; {
		case !ok:
			differences = append(differences, "Missing field: "+p.key)
		case value != p.value:
			differences = append(differences, fmt.Sprintf("Expect field %q to have value %q instead of %q", p.key, p.value, value))
		}
	}

	return differences, nil
}

// Dockerfile is the text of bundle.Dockerfile: an image of base that holds the two
// folders, which are given as paths within the build's context with forward slashes.
func (d Description) Dockerfile(base, manifests, metadata string) ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}

	for _, text := range []string{base, manifests, metadata} {
		if strings.ContainsAny(text, "\r\n") {
			return nil, fmt.Errorf("%q holds a line break: it would not stay within its line of a Dockerfile", text)
		}
	}

	var text bytes.Buffer
	fmt.Fprintf(&text, "FROM %s\n\n", base)
	for _, p := range d.pairs() {
		fmt.Fprintf(&text, "LABEL %s=%s\n", p.key, p.value)
	}

	// The field sets off the default channel only; files that people keep in version
	// control do not change for an empty line.
	if d.DefaultChannel != "" {
		text.WriteByte('\n')
	}

	fmt.Fprintf(&text, "COPY %s /%s/\nCOPY %s /%s/\n", manifests, FolderManifests, metadata, FolderMetadata)
	return text.Bytes(), nil
}

// Package configmap defines how OLM Classic stores an unpacked bundle: the files of its
// manifests and metadata are the data of a ConfigMap.
//
// It does not access a cluster. Jobs write the ConfigMap with
// internal/action/bundleconfigmap, catalog-operator with internal/classic/unpack, and
// internal/classic/steps reads it.
package configmap

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// Annotations of the ConfigMap.
const (
	// AnnotationEncoding is the encoding of the values.
	AnnotationEncoding = "olm.contentEncoding"
	// EncodingGzip is the value of AnnotationEncoding for compressed values.
	EncodingGzip = "gzip+base64"
	// AnnotationImage is the image of the bundle.
	AnnotationImage = "olm.sourceImage"
)

// bundleKeys are the annotations of a bundle that are copied to the ConfigMap.
var bundleKeys = []string{
	bundle.KeyMediaType, bundle.KeyManifests, bundle.KeyMetadata,
	bundle.KeyPackage, bundle.KeyChannels, bundle.KeyDefaultChannel,
}

// MaxBytes is the maximum size of all files together, as they are stored. An API server
// accepts no larger ConfigMap.
const MaxBytes = 1 << 20

// Content is the content of a ConfigMap with a bundle.
type Content struct {
	Annotations map[string]string
	Data        map[string]string
	BinaryData  map[string][]byte
}

// FromBundle returns the content for the files of manifests and metadata. It returns an
// error if their size, as they are stored, exceeds limit. With compressed, the files are
// compressed; otherwise all files must be text.
func FromBundle(files *bundle.Files, limit uint64, compressed bool) (*Content, error) {
	switch {
	case !files.HasManifests:
		return nil, fmt.Errorf("%s: %w", bundle.FolderManifests, fs.ErrNotExist)
	case !files.HasMetadata:
		return nil, fmt.Errorf("%s: %w", bundle.FolderMetadata, fs.ErrNotExist)
	}

	c := &Content{Annotations: map[string]string{}, Data: map[string]string{}, BinaryData: map[string][]byte{}}
	annotations, annotated := files.Annotations()
	for key, value := range annotations {
		if slices.Contains(bundleKeys, key) {
			c.Annotations[key] = value
		}
	}

	var total uint64
	for _, file := range slices.Concat(files.Manifests, files.Metadata) {
		if file.Folder || file.Name == annotated {
			continue
		}
		stored, err := c.addFile(file, compressed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		if total += stored; total > limit {
			return nil, fmt.Errorf("bundle files exceeded %v bytes limit", limit)
		}
	}

	if compressed {
		c.Annotations[AnnotationEncoding] = EncodingGzip
	}

	return c, nil
}

// invalidKey matches characters that are not allowed in a key of a ConfigMap.
var invalidKey = regexp.MustCompile(`[^-A-Za-z0-9_.]`)

// addFile adds a file and returns its size as it is stored.
func (c *Content) addFile(file bundle.File, compressed bool) (uint64, error) {
	if len(file.Data) == 0 && file.Err != nil {
		return 0, file.Err
	}

	key := invalidKey.ReplaceAllString(path.Base(file.Name), "-")
	_, plain := c.Data[key]
	if _, packed := c.BinaryData[key]; plain || packed {
		return 0, fmt.Errorf("another file has the key %q too", key)
	}

	if !compressed {
		if !utf8.Valid(file.Data) {
			return 0, errors.New("it is not UTF-8 text: store the files compressed")
		}
		c.Data[key] = string(file.Data)
		return uint64(len(file.Data)), nil
	}

	var packed bytes.Buffer
	encoder := base64.NewEncoder(base64.StdEncoding, &packed)
	writer := gzip.NewWriter(encoder)
	_, err := writer.Write(file.Data)
	if err := errors.Join(err, writer.Close(), encoder.Close()); err != nil {
		return 0, err
	}

	c.BinaryData[key] = packed.Bytes()
	return uint64(len(packed.Bytes())), nil
}

package bundleconfigmap

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
	// annotationEncoding says how the values are encoded.
	annotationEncoding = "olm.contentEncoding"
	encodingGzip       = "gzip+base64"
	// annotationImage names the image that the content is of.
	annotationImage = "olm.sourceImage"
)

// bundleKeys are the annotations of a bundle that become annotations of the ConfigMap.
var bundleKeys = []string{
	bundle.KeyMediaType, bundle.KeyManifests, bundle.KeyMetadata,
	bundle.KeyPackage, bundle.KeyChannels, bundle.KeyDefaultChannel,
}

// content is what a bundle becomes in a ConfigMap.
type content struct {
	annotations map[string]string
	data        map[string]string
	binaryData  map[string][]byte
}

// read takes the files of manifests and metadata. More bytes than the limit, counted as
// they are stored, are an error, as no ConfigMap can have them.
func read(files *bundle.Files, limit uint64, compressed bool) (*content, error) {
	switch {
	case !files.HasManifests:
		return nil, fmt.Errorf("%s: %w", bundle.FolderManifests, fs.ErrNotExist)
	case !files.HasMetadata:
		return nil, fmt.Errorf("%s: %w", bundle.FolderMetadata, fs.ErrNotExist)
	}
	c := &content{annotations: map[string]string{}, data: map[string]string{}, binaryData: map[string][]byte{}}
	annotations, annotated := files.Annotations()
	for key, value := range annotations {
		if slices.Contains(bundleKeys, key) {
			c.annotations[key] = value
		}
	}
	var total uint64
	for _, file := range slices.Concat(files.Manifests, files.Metadata) {
		if file.Folder || file.Name == annotated {
			continue
		}
		stored, err := c.store(file, compressed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		if total += stored; total > limit {
			return nil, fmt.Errorf("bundle files exceeded %v bytes limit", limit)
		}
	}
	if compressed {
		c.annotations[annotationEncoding] = encodingGzip
	}
	return c, nil
}

// invalidKey matches what the key of a ConfigMap may not have.
var invalidKey = regexp.MustCompile(`[^-A-Za-z0-9_.]`)

// store adds a file and tells how many bytes it takes.
func (c *content) store(file bundle.File, compressed bool) (uint64, error) {
	if len(file.Data) == 0 && file.Err != nil {
		return 0, file.Err
	}
	key := invalidKey.ReplaceAllString(path.Base(file.Name), "-")
	_, plain := c.data[key]
	if _, packed := c.binaryData[key]; plain || packed {
		return 0, fmt.Errorf("another file has the key %q too", key)
	}
	if !compressed {
		if !utf8.Valid(file.Data) {
			return 0, errors.New("it is not UTF-8 text: store the files compressed")
		}
		c.data[key] = string(file.Data)
		return uint64(len(file.Data)), nil
	}
	var packed bytes.Buffer
	encoder := base64.NewEncoder(base64.StdEncoding, &packed)
	writer := gzip.NewWriter(encoder)
	_, err := writer.Write(file.Data)
	if err := errors.Join(err, writer.Close(), encoder.Close()); err != nil {
		return 0, err
	}
	c.binaryData[key] = packed.Bytes()
	return uint64(len(packed.Bytes())), nil
}

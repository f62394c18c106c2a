package steps

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/bundle/configmap"
)

// Limits for decoding. A ConfigMap has at most 1 MiB, which may be compressed. The reader of a catalog limits the
// size of its messages.
const (
	maxFileBytes  = 8 << 20
	maxTotalBytes = 64 << 20
	maxObjects    = 2000
)

// Decode decodes a bundle from a catalog: the ClusterServiceVersion, which may be empty, and all objects, including
// the ClusterServiceVersion. Its errors are of type [*InvalidError].
func Decode(csv string, objects []string) (Bundle, error) {
	var b Bundle
	total := len(csv)
	if csv != "" {
		if err := b.addObject("the ClusterServiceVersion", []byte(csv)); err != nil {
			return Bundle{}, err
		}
	}

	for _, text := range objects {
		if total += len(text); total > maxTotalBytes {
			return Bundle{}, newTooLargeError()
		}
		if err := b.addObject("an object", []byte(text)); err != nil {
			return Bundle{}, err
		}
	}

	return b, nil
}

// DecodeConfigMap decodes a bundle that was unpacked into a ConfigMap. It skips files that are not manifests, as the
// bundle loader does. The bundle has the digest of all uncompressed files. Its errors are of type [*InvalidError].
func DecodeConfigMap(configMap *corev1.ConfigMap) (Bundle, error) {
	files := make(map[string][]byte, len(configMap.Data)+len(configMap.BinaryData))
	for key, text := range configMap.Data {
		files[key] = []byte(text)
	}

	maps.Copy(files, configMap.BinaryData)
	var b Bundle
	total := 0
	digest := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(files)) {
		data := files[key]
		_, binary := configMap.BinaryData[key]
		if binary && configMap.Annotations[configmap.AnnotationEncoding] == configmap.EncodingGzip {
			var err error
			if data, err = decompress(data); err != nil {
				return Bundle{}, newInvalidError("ConfigMap %s/%s: %s: %v", configMap.Namespace, configMap.Name, key, err)
			}
		}

		if total += len(data); total > maxTotalBytes {
			return Bundle{}, newTooLargeError()
		}

		if file := bundle.ReadManifest(key, data); file.IsReadable() {
			if err := b.addFile(file); err != nil {
				return Bundle{}, err
			}
		}

		// The lengths separate the files: moved bytes change the digest.
		_, _ = fmt.Fprintf(digest, "%d %s %d ", len(key), key, len(data)) // A hash never returns an error.
		_, _ = digest.Write(data)
	}

	b.Digest = "sha256:" + hex.EncodeToString(digest.Sum(nil))
	return b, nil
}

func newTooLargeError() error {
	return newInvalidError("the bundle is larger than the %d bytes that it may have", maxTotalBytes)
}

// addObject adds an object from a catalog.
func (b *Bundle) addObject(name string, data []byte) error {
	return b.addFile(bundle.ReadManifest(name, data))
}

// addFile adds the object of a file. It uses the first ClusterServiceVersion and ignores further ones.
func (b *Bundle) addFile(file bundle.File) error {
	object := file.Object()
	switch {
	case len(file.Documents) == 0 && file.Err != nil:
		return newInvalidError("%s: %v", file.Name, file.Err)
	case len(file.Documents) == 0:
		return nil
	case isCSV(object):
		if b.CSV.Object == nil {
			b.CSV = *object
		}
		return nil
	case object.GetKind() == "":
		return nil
	}

	if len(b.Objects) == maxObjects {
		return newInvalidError("the bundle has more than the %d objects that it may have", maxObjects)
	}

	b.Objects = append(b.Objects, *object)
	return nil
}

// isCSV reports whether an object is a ClusterServiceVersion, by its kind or, if it has none, its API version.
func isCSV(object *unstructured.Unstructured) bool {
	if object.GetKind() == "" {
		return object.GetAPIVersion() == v1alpha1.GroupVersion.String()
	}
	return object.GetKind() == v1alpha1.ClusterServiceVersionKind
}

func decompress(data []byte) ([]byte, error) {
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data)))
	if err != nil {
		return nil, err
	}

	content, err := io.ReadAll(io.LimitReader(reader, maxFileBytes+1))
	if err != nil {
		return nil, err
	}

	// One byte above the limit makes the manifest invalid.
	return content, nil
}

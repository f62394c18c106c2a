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

// Limits on what is decoded. A ConfigMap has at most 1 MiB, which may be compressed; a catalog's
// message is as large as its reader lets it be.
const (
	maxFileBytes  = 8 << 20
	maxTotalBytes = 64 << 20
	maxObjects    = 2000
)

// Decode reads a bundle as a catalog has it: the ClusterServiceVersion, which may be empty, and all
// objects, it among them. Its errors are of type [*InvalidError].
func Decode(csv string, objects []string) (Bundle, error) {
	var b Bundle
	total := len(csv)
	if csv != "" {
		if err := b.add("the ClusterServiceVersion", []byte(csv)); err != nil {
			return Bundle{}, err
		}
	}

	for _, text := range objects {
		if total += len(text); total > maxTotalBytes {
			return Bundle{}, tooLarge()
		}
		if err := b.add("an object", []byte(text)); err != nil {
			return Bundle{}, err
		}
	}

	return b, nil
}

// DecodeConfigMap reads a bundle that was unpacked into a ConfigMap. Files that are no manifests are
// passed over, as the loader of bundles does. The bundle has the digest of all files, as they are when
// they are not compressed. Its errors are of type [*InvalidError].
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
			if data, err = inflate(data); err != nil {
				return Bundle{}, invalid("ConfigMap %s/%s: %s: %v", configMap.Namespace, configMap.Name, key, err)
			}
		}

		if total += len(data); total > maxTotalBytes {
			return Bundle{}, tooLarge()
		}

		if file := bundle.ReadManifest(key, data); file.IsReadable() {
			if err := b.addFile(file); err != nil {
				return Bundle{}, err
			}
		}

		// The lengths keep one file's bytes from being counted as another's.
		_, _ = fmt.Fprintf(digest, "%d %s %d ", len(key), key, len(data)) // a hash takes everything
		_, _ = digest.Write(data)
	}

	b.Digest = "sha256:" + hex.EncodeToString(digest.Sum(nil))
	return b, nil
}

func tooLarge() error {
	return invalid("the bundle is larger than the %d bytes that it may have", maxTotalBytes)
}

// add adds an object of a catalog.
func (b *Bundle) add(name string, data []byte) error {
	return b.addFile(bundle.ReadManifest(name, data))
}

// addFile adds the object of a file. Of several ClusterServiceVersions the first counts.
func (b *Bundle) addFile(file bundle.File) error {
	object := file.Object()
	switch {
	case len(file.Documents) == 0 && file.Err != nil:
		return invalid("%s: %v", file.Name, file.Err)
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
		return invalid("the bundle has more than the %d objects that it may have", maxObjects)
	}

	b.Objects = append(b.Objects, *object)
	return nil
}

// isCSV tells a ClusterServiceVersion, also one that has lost half of what says so.
func isCSV(object *unstructured.Unstructured) bool {
	if object.GetKind() == "" {
		return object.GetAPIVersion() == v1alpha1.GroupVersion.String()
	}
	return object.GetKind() == v1alpha1.ClusterServiceVersionKind
}

func inflate(data []byte) ([]byte, error) {
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data)))
	if err != nil {
		return nil, err
	}

	content, err := io.ReadAll(io.LimitReader(reader, maxFileBytes+1))
	if err != nil {
		return nil, err
	}

	// One byte above the limit has the manifest be refused.
	return content, nil
}

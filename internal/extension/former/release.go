package former

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// maxReleaseBytes limits a Helm release, uncompressed.
	maxReleaseBytes = 64 << 20
	// maxChunks limits the Secrets of a Helm release. The other implementation writes at most 11.
	maxChunks = 16
	// statusDeployed is the status of a Helm release whose objects are on the cluster.
	statusDeployed = "deployed"
)

// release is a Helm release.
type release struct {
	Name     string            `json:"name"`
	Version  int64             `json:"version"`
	Labels   map[string]string `json:"labels"`
	Manifest string            `json:"manifest"`
	Info     struct {
		Status string `json:"status"`
	} `json:"info"`
}

// decodeRelease decodes a Helm release: JSON compressed with gzip, which Helm itself also encodes as
// base64.
func decodeRelease(data []byte) (*release, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		decoded, err := base64.StdEncoding.DecodeString(string(data))
		if err != nil {
			return nil, errors.New("the release is neither compressed with gzip nor encoded as base64")
		}
		data = decoded
	}

	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decompressing the release: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(reader, maxReleaseBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("decompressing the release: %w", err)
	case len(plain) > maxReleaseBytes:
		return nil, fmt.Errorf("the release has more than %d bytes", maxReleaseBytes)
	}

	r := &release{}
	if err := json.Unmarshal(plain, r); err != nil {
		// The decoder's message may quote the content, which may be a Secret's.
		return nil, errors.New("the release is not valid JSON")
	}
	return r, nil
}

// decodeObjects returns the objects of the manifest: one JSON object per line, or YAML documents.
func (r *release) decodeObjects() ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(r.Manifest)), 4096)
	for {
		var content map[string]any
		err := decoder.Decode(&content)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, errors.New("the manifest of the release cannot be decoded")
		case len(content) == 0:
			continue
		}

		u, err := newManifest(content)
		if err != nil {
			return nil, err
		}
		objects = append(objects, *u)
	}
}

// newManifest returns an object with what its bundle states: without its status, and of the metadata
// only the names, the labels and the annotations.
func newManifest(content map[string]any) (*unstructured.Unstructured, error) {
	given := &unstructured.Unstructured{Object: content}
	if given.GetKind() == "" || given.GetAPIVersion() == "" || given.GetName() == "" {
		return nil, errors.New("an object has no kind, no API version or no name")
	}

	u := given.DeepCopy()
	delete(u.Object, "status")
	delete(u.Object, "metadata")
	u.SetName(given.GetName())
	u.SetNamespace(given.GetNamespace())
	u.SetLabels(given.GetLabels())
	u.SetAnnotations(given.GetAnnotations())
	return u, nil
}

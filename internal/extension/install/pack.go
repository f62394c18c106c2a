package install

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

const (
	// maxInlineBytes is the maximum size of the objects that a revision holds inline. The API
	// server refuses requests, and etcd values, over 1.5 MiB. Half of that leaves room for the
	// managed fields, the status and a patch of both.
	maxInlineBytes = 768 << 10
	// maxSecretBytes is the maximum size of the data of a packed Secret. The API allows 1 MiB,
	// which base64 turns into 1.37 MiB on the wire.
	maxSecretBytes = 900 << 10
	// maxObjectBytes is the maximum size of an object. An API server reads no larger request.
	maxObjectBytes = 3 << 20
	// compressionThreshold is the size of an object, in bytes, above which it is compressed.
	compressionThreshold = 16 << 10
)

// packIntoSecrets moves the objects of a revision that is too large for one API object into
// Secrets. It returns the phases with references to them. The names of the Secrets are derived
// from the set and their content, so that packing the same objects again returns the same names. A
// small revision is returned unchanged, without Secrets.
func packIntoSecrets(phases []olmv1.ClusterObjectSetPhase, extension, set, namespace string) ([]olmv1.ClusterObjectSetPhase, []corev1.Secret, error) {
	size := 0
	encoded := make([][][]byte, len(phases))
	for i, phase := range phases {
		for _, object := range phase.Objects {
			data, err := json.Marshal(object.Object)
			if err != nil {
				return nil, nil, fmt.Errorf("encoding %s %q: %w", object.Object.GetKind(), object.Object.GetName(), err)
			}
			if len(data) > maxObjectBytes {
				return nil, nil, fmt.Errorf("%s %q: the object has %d bytes, more than the %d that an API server reads",
					object.Object.GetKind(), object.Object.GetName(), len(data), maxObjectBytes)
			}

			size += len(data)
			encoded[i] = append(encoded[i], data)
		}
	}

	if size <= maxInlineBytes {
		return phases, nil, nil
	}

	p := secretPacker{}
	packed := make([]olmv1.ClusterObjectSetPhase, len(phases))
	var refs []*olmv1.ObjectSourceRef
	for i, phase := range phases {
		packed[i] = phase
		packed[i].Objects = nil
		for j, data := range encoded[i] {
			object := phase.Objects[j].Object
			ref, err := p.add(fmt.Sprintf("%s.%d", phase.Name, j), data)
			if err != nil {
				return nil, nil, fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
			}

			refs = append(refs, ref)
			packed[i].Objects = append(packed[i].Objects, olmv1.ClusterObjectSetObject{Ref: ref})
		}
	}

	return packed, p.buildSecrets(extension, set, namespace, refs), nil
}

// secretPacker fills Secrets with encoded objects.
type secretPacker struct {
	data  []map[string][]byte
	sizes []int
	// secretIndexes holds the index of the Secret of each reference, in the order of adding.
	secretIndexes []int
}

func (p *secretPacker) add(key string, data []byte) (*olmv1.ObjectSourceRef, error) {
	if len(data) > compressionThreshold {
		data = compressWithGzip(data)
	}
	if len(data) > maxSecretBytes {
		return nil, fmt.Errorf("the object has %d bytes compressed, more than the %d that a Secret can hold", len(data), maxSecretBytes)
	}

	last := len(p.data) - 1
	if last < 0 || p.sizes[last]+len(data) > maxSecretBytes {
		p.data = append(p.data, map[string][]byte{})
		p.sizes = append(p.sizes, 0)
		last++
	}

	p.data[last][key] = data
	p.sizes[last] += len(data)
	p.secretIndexes = append(p.secretIndexes, last)

	return &olmv1.ObjectSourceRef{Key: key}, nil
}

// buildSecrets returns the Secrets and completes the references with their names.
func (p *secretPacker) buildSecrets(extension, set, namespace string, refs []*olmv1.ObjectSourceRef) []corev1.Secret {
	immutable := true
	result := make([]corev1.Secret, len(p.data))
	for i, data := range p.data {
		result[i] = corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name:      fmt.Sprintf("%s-%s", set, hashSecretData(data)),
				Namespace: namespace,
				Labels: map[string]string{
					olmv1.LabelOwnerKind:    olmv1.ClusterExtensionKind,
					olmv1.LabelOwnerName:    extension,
					olmv1.LabelRevisionName: set,
				},
			},
			Type:      olmv1.SecretTypeObjectData,
			Immutable: &immutable,
			Data:      data,
		}
	}

	for i, ref := range refs {
		ref.Name = result[p.secretIndexes[i]].Name
		ref.Namespace = namespace
	}

	return result
}

// hashSecretData returns 16 hexadecimal characters that hash keys and values. JSON encodes maps in
// the order of their keys.
func hashSecretData(data map[string][]byte) string {
	encoded, _ := json.Marshal(data) // a map of bytes always encodes
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}

// compressWithGzip returns the data in gzip format. The result depends only on the data.
func compressWithGzip(data []byte) []byte {
	var buffer bytes.Buffer
	w, _ := gzip.NewWriterLevel(&buffer, gzip.BestCompression) // the level is valid
	_, _ = w.Write(data)                                       // a buffer does not fail
	_ = w.Close()
	return buffer.Bytes()
}

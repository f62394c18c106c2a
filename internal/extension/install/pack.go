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
	// maxInline is how many bytes of objects a revision holds in place. The API server
	// refuses requests, and etcd values, over 1.5 MiB; half of that leaves room for the
	// managed fields, the status and a patch of both.
	maxInline = 768 << 10
	// maxSecret is how many bytes of data a packed Secret holds: the API allows 1 MiB,
	// which base64 turns into 1.37 MiB on the wire.
	maxSecret = 900 << 10
	// maxObject is how many bytes an object may have: an API server reads no larger request.
	maxObject = 3 << 20
	// compressAbove is the size of an object, in bytes, above which it is compressed.
	compressAbove = 16 << 10
)

// pack moves the objects of a revision that is too large for one API object into
// Secrets, and gives the phases with references in their place. The Secrets belong
// to the set and are named by it and by their content, so that packing the same
// objects again gives the same names. A small revision is given back as it is,
// without Secrets.
func pack(phases []olmv1.ClusterObjectSetPhase, extension, set, namespace string) ([]olmv1.ClusterObjectSetPhase, []corev1.Secret, error) {
	size := 0
	encoded := make([][][]byte, len(phases))
	for i, phase := range phases {
		for _, object := range phase.Objects {
			data, err := json.Marshal(object.Object)
			if err != nil {
				return nil, nil, fmt.Errorf("encoding %s %q: %w", object.Object.GetKind(), object.Object.GetName(), err)
			}
			if len(data) > maxObject {
				return nil, nil, fmt.Errorf("%s %q: the object has %d bytes, more than the %d that an API server reads",
					object.Object.GetKind(), object.Object.GetName(), len(data), maxObject)
			}

			size += len(data)
			encoded[i] = append(encoded[i], data)
		}
	}

	if size <= maxInline {
		return phases, nil, nil
	}

	p := packer{}
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

	return packed, p.secrets(extension, set, namespace, refs), nil
}

// packer fills Secrets with encoded objects.
type packer struct {
	data  []map[string][]byte
	sizes []int
	// of returns, for each reference in the order of adding, its Secret.
	of []int
}

func (p *packer) add(key string, data []byte) (*olmv1.ObjectSourceRef, error) {
	if len(data) > compressAbove {
		data = compress(data)
	}
	if len(data) > maxSecret {
		return nil, fmt.Errorf("the object has %d bytes compressed, more than the %d that a Secret can hold", len(data), maxSecret)
	}

	last := len(p.data) - 1
	if last < 0 || p.sizes[last]+len(data) > maxSecret {
		p.data = append(p.data, map[string][]byte{})
		p.sizes = append(p.sizes, 0)
		last++
	}

	p.data[last][key] = data
	p.sizes[last] += len(data)
	p.of = append(p.of, last)

	return &olmv1.ObjectSourceRef{Key: key}, nil
}

// secrets makes the Secrets and completes the references with their names.
func (p *packer) secrets(extension, set, namespace string, refs []*olmv1.ObjectSourceRef) []corev1.Secret {
	immutable := true
	result := make([]corev1.Secret, len(p.data))
	for i, data := range p.data {
		result[i] = corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name:      fmt.Sprintf("%s-%s", set, contentHash(data)),
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
		ref.Name = result[p.of[i]].Name
		ref.Namespace = namespace
	}

	return result
}

// contentHash is 16 hexadecimal characters over keys and values; JSON writes maps in
// the order of their keys.
func contentHash(data map[string][]byte) string {
	encoded, _ := json.Marshal(data) // a map of bytes always encodes
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}

// compress returns the data in gzip's format. The result depends on the data only.
func compress(data []byte) []byte {
	var buffer bytes.Buffer
	w, _ := gzip.NewWriterLevel(&buffer, gzip.BestCompression) // the level is valid
	_, _ = w.Write(data)                                       // a buffer does not fail
	_ = w.Close()
	return buffer.Bytes()
}

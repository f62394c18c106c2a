package apply

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

const (
	// maxObject is the largest manifest read from a Secret, in bytes, uncompressed. The
	// API server takes no request body over 3 MiB.
	maxObject = 3 << 20
	// maxContent is the size of all manifests of a set that are read from Secrets, in
	// bytes, uncompressed.
	maxContent = 64 << 20
)

// Content is the objects of a ClusterObjectSet, those in Secrets read.
type Content struct {
	Phases []Phase
	// Missing are the Secrets, as namespace/name or namespace/name[key], that do not
	// exist or lack a key. Their objects are not among the phases.
	Missing []string
	// Mutable are the Secrets, as namespace/name, that are not immutable. Their objects are
	// among the phases, but must not be applied: they may change at any time.
	Mutable []string
	// Malformed are the faults of objects that cannot be applied whatever happens on
	// the cluster. Such objects are not among the phases.
	Malformed []error
}

// Load reads the objects of a set. References to Secrets without a namespace mean the
// given one. It fails only when a Secret cannot be read; what is wrong with the
// content stands in the result.
func Load(ctx context.Context, reader client.Reader, set *olmv1.ClusterObjectSet, namespace string) (*Content, error) {
	l := loader{reader: reader, namespace: namespace, secrets: map[client.ObjectKey]*corev1.Secret{}, seen: map[Key]string{}}
	protection := set.Spec.CollisionProtection
	for _, phase := range set.Spec.Phases {
		loaded := Phase{Name: phase.Name}
		for i, object := range phase.Objects {
			where := fmt.Sprintf("phase %q, object %d", phase.Name, i)
			manifest, err := l.manifest(ctx, object, where)
			if err != nil {
				return nil, err
			}
			if manifest == nil {
				continue
			}

			loaded.Objects = append(loaded.Objects, Object{
				Manifest:   manifest,
				Protection: firstSet(object.CollisionProtection, phase.CollisionProtection, protection),
			})
		}
		l.content.Phases = append(l.content.Phases, loaded)
	}

	return &l.content, nil
}

// Digests returns the digest of each phase's objects, as sha256:<hex>. It depends on
// the objects and their order only, not on where they stand.
func (c *Content) Digests() ([]olmv1.ObservedPhase, error) {
	result := make([]olmv1.ObservedPhase, len(c.Phases))
	for i, phase := range c.Phases {
		hash := sha256.New()
		encoder := json.NewEncoder(hash) // writes keys sorted, and a newline after each object
		for _, object := range phase.Objects {
			if err := encoder.Encode(object.Manifest.Object); err != nil {
				return nil, fmt.Errorf("phase %q: encoding %s: %w", phase.Name, KeyOf(object.Manifest), err)
			}
		}
		result[i] = olmv1.ObservedPhase{Name: phase.Name, Digest: "sha256:" + hex.EncodeToString(hash.Sum(nil))}
	}

	return result, nil
}

func firstSet(protections ...olmv1.CollisionProtection) olmv1.CollisionProtection {
	for _, protection := range protections {
		if protection != "" {
			return protection
		}
	}
	return olmv1.CollisionProtectionPrevent
}

// loader collects the content of one set.
type loader struct {
	reader    client.Reader
	namespace string

	content Content
	// secrets were read; nil are those that do not exist.
	secrets map[client.ObjectKey]*corev1.Secret
	// seen says where an object stands.
	seen map[Key]string
	size int
}

// manifest returns one object; nil when it is missing or malformed, which is noted.
func (l *loader) manifest(ctx context.Context, object olmv1.ClusterObjectSetObject, where string) (*unstructured.Unstructured, error) {
	manifest := object.Object
	if object.Ref != nil {
		data, err := l.read(ctx, object.Ref)
		if err != nil || data == nil {
			return nil, err
		}
		manifest, err = l.decode(data)
		if err != nil {
			l.malformed("%s: Secret %q, key %q: %w", where, l.keyOf(object.Ref), object.Ref.Key, err)
			return nil, nil
		}
	}

	if manifest == nil {
		l.malformed("%s: it has neither object nor ref", where)
		return nil, nil
	}

	key := KeyOf(manifest)
	if manifest.GetAPIVersion() == "" || key.Kind == "" || key.Name == "" {
		l.malformed("%s: apiVersion, kind and metadata.name must be set", where)
		return nil, nil
	}
	if other, ok := l.seen[key]; ok {
		l.malformed("%s: %s is there twice, also as %s", where, key, other)
		return nil, nil
	}

	l.seen[key] = where
	return manifest, nil
}

func (l *loader) malformed(format string, args ...any) {
	l.content.Malformed = append(l.content.Malformed, fmt.Errorf(format, args...))
}

func (l *loader) keyOf(ref *olmv1.ObjectSourceRef) client.ObjectKey {
	if ref.Namespace == "" {
		return client.ObjectKey{Namespace: l.namespace, Name: ref.Name}
	}
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
}

// read returns the value that a reference names; nil when it is missing, which is noted.
// Only Secrets of the type for objects are read: a reference must not carry any other
// Secret's content out of its namespace.
func (l *loader) read(ctx context.Context, ref *olmv1.ObjectSourceRef) ([]byte, error) {
	key := l.keyOf(ref)
	secret, ok := l.secrets[key]
	if !ok {
		secret = &corev1.Secret{}
		err := l.reader.Get(ctx, key, secret)
		switch {
		case apierrors.IsNotFound(err):
			secret = nil
			l.content.Missing = append(l.content.Missing, key.String())
		case err != nil:
			return nil, fmt.Errorf("reading objects from Secret %q: %w", key, err)
		}

		if secret != nil && (secret.Immutable == nil || !*secret.Immutable) {
			l.content.Mutable = append(l.content.Mutable, key.String())
		}
		if secret != nil && secret.Type != olmv1.SecretTypeObjectData {
			l.malformed("Secret %q is of type %q, not %q", key, secret.Type, olmv1.SecretTypeObjectData)
			secret = nil
		}

		l.secrets[key] = secret
	}

	if secret == nil {
		return nil, nil
	}

	data, ok := secret.Data[ref.Key]
	if !ok {
		l.content.Missing = append(l.content.Missing, fmt.Sprintf("%s[%s]", key, ref.Key))
	}

	return data, nil
}

// decode reads a manifest: JSON, plain or compressed with gzip.
func (l *loader) decode(data []byte) (*unstructured.Unstructured, error) {
	data, err := decompress(data)
	if err != nil {
		return nil, err
	}

	l.size += len(data)
	if l.size > maxContent {
		return nil, fmt.Errorf("the objects of the set have more than %d bytes", maxContent)
	}

	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		// The decoder's message may quote the content, which may be a Secret's.
		return nil, errors.New("the value is not an object in JSON with a kind")
	}
	if u.IsList() {
		return nil, errors.New("the value is a list, not an object")
	}

	return u, nil
}

// decompress returns the data as it is, or uncompressed when it is compressed with gzip.
func decompress(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		if len(data) > maxObject {
			return nil, fmt.Errorf("the object has more than %d bytes", maxObject)
		}
		return data, nil
	}

	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}

	plain, err := io.ReadAll(io.LimitReader(reader, maxObject+1))
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	if len(plain) > maxObject {
		return nil, fmt.Errorf("the object has more than %d bytes", maxObject)
	}

	return plain, nil
}

// HoldsReferences reports whether objects of a revision stand in Secrets.
func HoldsReferences(set *olmv1.ClusterObjectSet) bool {
	return slices.ContainsFunc(set.Spec.Phases, func(phase olmv1.ClusterObjectSetPhase) bool {
		return slices.ContainsFunc(phase.Objects, func(object olmv1.ClusterObjectSetObject) bool { return object.Ref != nil })
	})
}

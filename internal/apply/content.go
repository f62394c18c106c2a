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
	// maxObjectBytes is the maximum size of a manifest in a Secret, uncompressed. The API server
	// accepts no request body over 3 MiB.
	maxObjectBytes = 3 << 20
	// maxContentBytes is the maximum size of all manifests of a set that are read from Secrets,
	// uncompressed.
	maxContentBytes = 64 << 20
)

// Content is the objects of a ClusterObjectSet, including those in Secrets.
type Content struct {
	Phases []Phase
	// Missing are the Secrets, as namespace/name or namespace/name[key], that do not exist or lack
	// a key. The phases do not contain their objects.
	Missing []string
	// Mutable are the Secrets, as namespace/name, that are not immutable. The phases contain their
	// objects, but these must not be applied: they may change at any time.
	Mutable []string
	// Malformed are the errors of objects that can never be applied. The phases do not contain
	// these objects.
	Malformed []error
}

// Load reads the objects of a set. References to Secrets without a namespace mean the given one.
// It returns an error only if a Secret cannot be read. Problems of the content are part of the
// result.
func Load(ctx context.Context, reader client.Reader, set *olmv1.ClusterObjectSet, namespace string) (*Content, error) {
	l := loader{reader: reader, namespace: namespace, secrets: map[client.ObjectKey]*corev1.Secret{}, locations: map[Key]string{}}
	protection := set.Spec.CollisionProtection
	for _, phase := range set.Spec.Phases {
		loaded := Phase{Name: phase.Name}
		for i, object := range phase.Objects {
			where := fmt.Sprintf("phase %q, object %d", phase.Name, i)
			manifest, err := l.loadManifest(ctx, object, where)
			if err != nil {
				return nil, err
			}
			if manifest == nil {
				continue
			}

			loaded.Objects = append(loaded.Objects, Object{
				Manifest:   manifest,
				Protection: firstProtection(object.CollisionProtection, phase.CollisionProtection, protection),
			})
		}
		l.content.Phases = append(l.content.Phases, loaded)
	}

	return &l.content, nil
}

// Digests returns the digest of each phase's objects, as sha256:<hex>. It depends only on the
// objects and their order, not on where they are stored.
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

func firstProtection(protections ...olmv1.CollisionProtection) olmv1.CollisionProtection {
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
	// secrets are the Secrets that were read. Those that do not exist are nil.
	secrets map[client.ObjectKey]*corev1.Secret
	// locations describes where each object is defined, for error messages.
	locations map[Key]string
	size      int
}

// loadManifest returns one object. It returns nil if the object is missing or malformed, and
// records that in the content.
func (l *loader) loadManifest(ctx context.Context, object olmv1.ClusterObjectSetObject, where string) (*unstructured.Unstructured, error) {
	manifest := object.Object
	if object.Ref != nil {
		data, err := l.readSecretValue(ctx, object.Ref)
		if err != nil || data == nil {
			return nil, err
		}
		manifest, err = l.decodeManifest(data)
		if err != nil {
			l.addMalformed("%s: Secret %q, key %q: %w", where, l.secretKeyOf(object.Ref), object.Ref.Key, err)
			return nil, nil
		}
	}

	if manifest == nil {
		l.addMalformed("%s: it has neither object nor ref", where)
		return nil, nil
	}

	key := KeyOf(manifest)
	if manifest.GetAPIVersion() == "" || key.Kind == "" || key.Name == "" {
		l.addMalformed("%s: apiVersion, kind and metadata.name must be set", where)
		return nil, nil
	}
	if other, ok := l.locations[key]; ok {
		l.addMalformed("%s: %s is there twice, also as %s", where, key, other)
		return nil, nil
	}

	l.locations[key] = where
	return manifest, nil
}

func (l *loader) addMalformed(format string, args ...any) {
	l.content.Malformed = append(l.content.Malformed, fmt.Errorf(format, args...))
}

func (l *loader) secretKeyOf(ref *olmv1.ObjectSourceRef) client.ObjectKey {
	if ref.Namespace == "" {
		return client.ObjectKey{Namespace: l.namespace, Name: ref.Name}
	}
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
}

// readSecretValue returns the value that a reference names. It returns nil if the value is
// missing, and records that. Only Secrets of the type for objects are read: a reference must not
// disclose the content of other Secrets.
func (l *loader) readSecretValue(ctx context.Context, ref *olmv1.ObjectSourceRef) ([]byte, error) {
	key := l.secretKeyOf(ref)
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
			l.addMalformed("Secret %q is of type %q, not %q", key, secret.Type, olmv1.SecretTypeObjectData)
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

// decodeManifest decodes a manifest from JSON, plain or compressed with gzip.
func (l *loader) decodeManifest(data []byte) (*unstructured.Unstructured, error) {
	data, err := decompressIfGzip(data)
	if err != nil {
		return nil, err
	}

	l.size += len(data)
	if l.size > maxContentBytes {
		return nil, fmt.Errorf("the objects of the set have more than %d bytes", maxContentBytes)
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

// decompressIfGzip returns the data uncompressed if it is compressed with gzip, otherwise unchanged.
func decompressIfGzip(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		if len(data) > maxObjectBytes {
			return nil, fmt.Errorf("the object has more than %d bytes", maxObjectBytes)
		}
		return data, nil
	}

	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}

	plain, err := io.ReadAll(io.LimitReader(reader, maxObjectBytes+1))
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	if len(plain) > maxObjectBytes {
		return nil, fmt.Errorf("the object has more than %d bytes", maxObjectBytes)
	}

	return plain, nil
}

// HoldsReferences reports whether objects of a revision are stored in Secrets.
func HoldsReferences(set *olmv1.ClusterObjectSet) bool {
	return slices.ContainsFunc(set.Spec.Phases, func(phase olmv1.ClusterObjectSetPhase) bool {
		return slices.ContainsFunc(phase.Objects, func(object olmv1.ClusterObjectSetObject) bool { return object.Ref != nil })
	})
}

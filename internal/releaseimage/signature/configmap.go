package signature

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// The location of signatures in a cluster.
const (
	// Namespace is the namespace of the ConfigMaps with signatures.
	Namespace = "openshift-config-managed"
	// Label is the label of these ConfigMaps, with an empty value.
	Label = "release.openshift.io/verification-signatures"
)

// minListInterval is the minimum interval between lists of ConfigMaps.
const minListInterval = 30 * time.Second

// maxInConfigMaps is the maximum number of signatures in ConfigMaps that are read for a digest.
const maxInConfigMaps = 100

// ConfigMapStore is a store of signatures in ConfigMaps of a cluster: those in Namespace with
// Label. Keys of binaryData that start with <algorithm>-<hex> contain signatures. The ConfigMaps
// are listed at most every 30 seconds. It is safe for concurrent use.
type ConfigMapStore struct {
	// List returns the ConfigMaps. It is not called concurrently.
	List func(ctx context.Context) ([]corev1.ConfigMap, error)

	now      func() time.Time // nil means time.Now
	mu       sync.Mutex
	listedAt time.Time
	cached   []corev1.ConfigMap
}

// String returns the location.
func (*ConfigMapStore) String() string { return "ConfigMaps in " + Namespace }

// Signatures returns the signatures of the digest in the ConfigMaps.
func (s *ConfigMapStore) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		found, err := s.listConfigMaps(ctx)
		if err != nil {
			yield(nil, fmt.Errorf("list the %s: %w", s, err))
			return
		}
		signaturesInConfigMaps(found, digest)(yield)
	}
}

func (s *ConfigMapStore) listConfigMaps(ctx context.Context) ([]corev1.ConfigMap, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now
	if s.now != nil {
		now = s.now
	}
	if !s.listedAt.IsZero() && now().Sub(s.listedAt) < minListInterval {
		return s.cached, nil
	}

	found, err := s.List(ctx)
	if err != nil {
		return nil, err
	}

	s.listedAt = now()
	s.cached = found
	return found, nil
}

// signaturesInConfigMaps returns the signatures of a digest, in the order of the ConfigMaps and
// their sorted keys.
func signaturesInConfigMaps(configMaps []corev1.ConfigMap, digest Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		given := 0
		prefix := digest.Algorithm + "-" + digest.Hex
		for i := range configMaps {
			data := configMaps[i].BinaryData
			for _, key := range slices.Sorted(maps.Keys(data)) {
				if !strings.HasPrefix(key, prefix) || given == maxInConfigMaps {
					continue
				}

				given++
				signature, err := data[key], error(nil)
				if len(signature) > MaxSignatureBytes {
					signature, err = nil, fmt.Errorf("ConfigMap %s: %s: %w", configMaps[i].Name, key, errTooLarge)
				}
				if !yield(signature, err) {
					return
				}
			}
		}
	}
}

// ConfigMapOf returns a ConfigMap with the signatures of a digest.
func ConfigMapOf(digest Digest, signatures [][]byte) *corev1.ConfigMap {
	name := digest.Algorithm + "-" + digest.Hex
	data := map[string][]byte{}
	for i, signature := range signatures {
		data[fmt.Sprintf("%s-%d", name, i+1)] = signature
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, Labels: map[string]string{Label: ""}},
		BinaryData: data,
	}
}

// maxBundleBytes is the maximum size of a file with ConfigMaps.
const maxBundleBytes = 4 << 20

// NewBundleStore returns a store for a file with ConfigMaps that contain signatures, in YAML or JSON.
// Such files bring signatures to clusters without access to other stores. The name is used in
// messages.
func NewBundleStore(name string, data []byte) (Store, error) {
	if len(data) > maxBundleBytes {
		return nil, fmt.Errorf("%s: it is larger than the %d bytes that it may have", name, maxBundleBytes)
	}

	bundle := &bundleStore{name: name}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var configMap corev1.ConfigMap
		err := decoder.Decode(&configMap)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: it holds no ConfigMap: %s", name, excerpt.Line(err.Error(), maxTextBytes))
		}
		if configMap.Kind == "ConfigMap" {
			bundle.configMaps = append(bundle.configMaps, configMap)
		}
	}

	if len(bundle.configMaps) == 0 {
		return nil, fmt.Errorf("%s: it holds no ConfigMap", name)
	}

	return bundle, nil
}

type bundleStore struct {
	name       string
	configMaps []corev1.ConfigMap
}

func (s *bundleStore) String() string { return s.name }

func (s *bundleStore) Signatures(_ context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return signaturesInConfigMaps(s.configMaps, digest)
}

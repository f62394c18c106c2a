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
)

// Where a cluster keeps signatures.
const (
	// Namespace has the ConfigMaps that hold signatures.
	Namespace = "openshift-config-managed"
	// Label is on each of them, with an empty value.
	Label = "release.openshift.io/verification-signatures"
)

// listEvery is how often ConfigMaps are listed at most.
const listEvery = 30 * time.Second

// maxConfigMaps is how many signatures ConfigMaps may hold for one digest.
const maxInConfigMaps = 100

// ConfigMapStore keeps signatures in the ConfigMaps of a cluster: those in Namespace with
// Label, of whose binaryData the keys count that begin with <algorithm>-<hex>. They are
// listed at most each 30 seconds. It is safe for concurrent use.
type ConfigMapStore struct {
	// List returns the ConfigMaps. It is called by one goroutine at a time.
	List func(ctx context.Context) ([]corev1.ConfigMap, error)

	now    func() time.Time // nil means time.Now
	mu     sync.Mutex
	listed time.Time
	found  []corev1.ConfigMap
}

// String says where they are.
func (*ConfigMapStore) String() string { return "ConfigMaps in " + Namespace }

// Signatures returns what the ConfigMaps hold for the digest.
func (s *ConfigMapStore) Signatures(ctx context.Context, digest Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		found, err := s.list(ctx)
		if err != nil {
			yield(nil, fmt.Errorf("list the %s: %w", s, err))
			return
		}
		inConfigMaps(found, digest)(yield)
	}
}

func (s *ConfigMapStore) list(ctx context.Context) ([]corev1.ConfigMap, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now
	if s.now != nil {
		now = s.now
	}
	if !s.listed.IsZero() && now().Sub(s.listed) < listEvery {
		return s.found, nil
	}

	found, err := s.List(ctx)
	if err != nil {
		return nil, err
	}

	s.listed, s.found = now(), found
	return found, nil
}

// inConfigMaps returns the signatures of a digest, by the names of the ConfigMaps and keys.
func inConfigMaps(configMaps []corev1.ConfigMap, digest Digest) iter.Seq2[[]byte, error] {
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

// ConfigMapOf returns the ConfigMap that holds the signatures of a digest in a cluster.
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

// maxBundleBytes is the size of a file with ConfigMaps: as many signatures as a ConfigMap
// may hold.
const maxBundleBytes = 4 << 20

// StoreOf makes a store of a file that holds ConfigMaps with signatures, in YAML or JSON, as
// they are carried to a cluster that reaches no other store. The name is what people know
// the file by.
func StoreOf(name string, data []byte) (Store, error) {
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
			return nil, fmt.Errorf("%s: it holds no ConfigMap: %s", name, shorten(err.Error()))
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
	return inConfigMaps(s.configMaps, digest)
}

package signature

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ConfigMap by which a release says who signs releases.
const (
	// AnnotationConfigMap marks it among the manifests of the release, with any value.
	AnnotationConfigMap = "release.openshift.io/verification-config-map"
	prefixKeyring       = "verifier-public-key-"
	prefixStore         = "store-"
)

// Config says who signs releases, and where their signatures are.
type Config struct {
	// Keyrings must each have signed. Their names are the keys of the ConfigMap, and they
	// are sorted by them.
	Keyrings []Keyring
	// Stores are where signatures are looked for, in the order of their keys.
	Stores []Store
	// Unknown are the keys that mean nothing, sorted.
	Unknown []string
}

// TrustOf returns the ConfigMap by which a release says who signs its successors: keyrings by
// their names, all of which must have signed, and the URLs of stores with their signatures.
// There must be at least one of each.
func TrustOf(keyrings map[string][]byte, stores []string) (*corev1.ConfigMap, error) {
	configMap := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "release-verification", Namespace: Namespace, Annotations: map[string]string{AnnotationConfigMap: ""},
		},
		Data: map[string]string{}, BinaryData: map[string][]byte{},
	}

	all := map[string]string{}
	for name, keyring := range keyrings {
		if wrong := validation.IsConfigMapKey(prefixKeyring + name); len(wrong) > 0 {
			return nil, fmt.Errorf("the name %q of a keyring: %s", name, strings.Join(wrong, "; "))
		}
		all[prefixKeyring+name] = string(keyring)
		if utf8.Valid(keyring) {
			configMap.Data[prefixKeyring+name] = string(keyring)
		} else {
			configMap.BinaryData[prefixKeyring+name] = keyring
		}
	}

	for i, store := range stores {
		name := fmt.Sprintf("%s%d", prefixStore, i+1)
		all[name], configMap.Data[name] = store, store
	}

	_, err := ParseConfig(all, nil)
	return configMap, err
}

// Verifier makes a verifier of the configuration. The stores that come first are asked
// before those of the configuration, one after the other.
func (c Config) Verifier(first ...Store) *Statements {
	stores := slices.Clip(first)
	if len(c.Stores) > 0 {
		stores = append(stores, Parallel(c.Stores...))
	}
	return NewStatements(c.Keyrings, Serial(stores...))
}

// ParseConfig reads the data of a ConfigMap with AnnotationConfigMap: keyrings at
// verifier-public-key-<name>, URLs of stores at store-<name>. There must be at least one of
// each. The client asks stores on web servers; nil means that of the machine.
func ParseConfig(data map[string]string, client *http.Client) (Config, error) {
	var config Config
	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(data)) {
		switch {
		case strings.HasPrefix(key, prefixKeyring):
			keyring, err := ParseKeyring(key, []byte(data[key]))
			if err != nil {
				wrong = append(wrong, err)
				continue
			}
			config.Keyrings = append(config.Keyrings, keyring)
		case strings.HasPrefix(key, prefixStore):
			store, err := OpenStore(data[key], client)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", key, err))
				continue
			}
			config.Stores = append(config.Stores, store)
		default:
			config.Unknown = append(config.Unknown, key)
		}
	}

	if len(config.Keyrings) == 0 && len(wrong) == 0 {
		wrong = append(wrong, fmt.Errorf("no key %s<name> holds a keyring", prefixKeyring))
	}
	if len(config.Stores) == 0 && len(wrong) == 0 {
		wrong = append(wrong, fmt.Errorf("no key %s<name> holds the URL of a store", prefixStore))
	}

	return config, errors.Join(wrong...)
}

// OpenStore makes a store of a URL: a folder of a web server (http or https), or one on disk
// (file). The client asks web servers; nil means that of the machine.
func OpenStore(address string, client *http.Client) (Store, error) {
	parsed, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return nil, errors.New("the store is no URL") // The error would hold what may be a secret.
	}

	switch parsed.Scheme {
	case "http", "https":
		store, err := NewHTTPStore(parsed, client)
		if err != nil {
			return nil, fmt.Errorf("the store cannot be used: %w", err)
		}
		return store, nil
	case "file":
		if parsed.Host != "" && parsed.Host != "localhost" || !filepath.IsAbs(parsed.Path) {
			return nil, errors.New("the store must be a folder of this machine, as file:///folder")
		}
		return FolderStore{Name: "file://" + parsed.Path, Files: os.DirFS(parsed.Path)}, nil
	default:
		return nil, fmt.Errorf("the store has the scheme %q; it must be http, https or file", shorten(parsed.Scheme))
	}
}

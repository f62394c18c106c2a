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

	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/pgp"
)

// The ConfigMap by which a release configures the verification of releases.
const (
	// AnnotationConfigMap marks it among the manifests of the release. Its value is ignored.
	AnnotationConfigMap = "release.openshift.io/verification-config-map"
	prefixKeyring       = "verifier-public-key-"
	prefixStore         = "store-"
)

// Config configures the verification of releases.
type Config struct {
	// Keyrings must each have signed a release. Their names are the keys of the ConfigMap, and
	// they are sorted by name.
	Keyrings []pgp.Keyring
	// Stores are searched for signatures. They are sorted by their keys.
	Stores []Store
	// Unknown are the unknown keys, sorted.
	Unknown []string
}

// NewTrustConfigMap returns the ConfigMap by which a release configures the verification of its
// successors: keyrings by name, all of which must sign, and URLs of stores. There must be at
// least one of each.
func NewTrustConfigMap(keyrings map[string][]byte, stores []string) (*corev1.ConfigMap, error) {
	configMap := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "release-verification", Namespace: Namespace, Annotations: map[string]string{AnnotationConfigMap: ""},
		},
		Data: map[string]string{}, BinaryData: map[string][]byte{},
	}

	all := map[string]string{}
	for name, keyring := range keyrings {
		if errs := validation.IsConfigMapKey(prefixKeyring + name); len(errs) > 0 {
			return nil, fmt.Errorf("the name %q of a keyring: %s", name, strings.Join(errs, "; "))
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
		all[name] = store
		configMap.Data[name] = store
	}

	_, err := ParseConfig(all, nil)
	return configMap, err
}

// Verifier returns a verifier for the configuration. The stores in first are searched before
// those of the configuration, one after the other.
func (c Config) Verifier(first ...Store) *Statements {
	stores := slices.Clip(first)
	if len(c.Stores) > 0 {
		stores = append(stores, Parallel(c.Stores...))
	}
	return NewStatements(c.Keyrings, Serial(stores...))
}

// ParseConfig parses the data of a ConfigMap with AnnotationConfigMap: keyrings at
// verifier-public-key-<name>, and URLs of stores at store-<name>. There must be at least one of
// each. The client accesses web servers; nil means http.DefaultClient.
func ParseConfig(data map[string]string, client *http.Client) (Config, error) {
	var config Config
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(data)) {
		switch {
		case strings.HasPrefix(key, prefixKeyring):
			keyring, err := pgp.ParseKeyring(key, []byte(data[key]))
			if err != nil {
				errs = append(errs, err)
				continue
			}
			config.Keyrings = append(config.Keyrings, keyring)
		case strings.HasPrefix(key, prefixStore):
			store, err := OpenStore(data[key], client)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", key, err))
				continue
			}
			config.Stores = append(config.Stores, store)
		default:
			config.Unknown = append(config.Unknown, key)
		}
	}

	if len(config.Keyrings) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("no key %s<name> holds a keyring", prefixKeyring))
	}
	if len(config.Stores) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("no key %s<name> holds the URL of a store", prefixStore))
	}

	return config, errors.Join(errs...)
}

// OpenStore returns a store for a URL: a directory of a web server (http or https), or on disk
// (file). The client accesses web servers; nil means http.DefaultClient.
func OpenStore(address string, client *http.Client) (Store, error) {
	parsed, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return nil, errors.New("the store is not a URL") // The error would contain the URL, which may be a secret.
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
		return nil, fmt.Errorf("the store has the scheme %q; it must be http, https or file", excerpt.Line(parsed.Scheme, maxTextBytes))
	}
}

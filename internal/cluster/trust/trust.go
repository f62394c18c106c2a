// Package trust creates the verifiers of releases. They trust the keys that the running release
// names. Signatures come from ConfigMaps of the cluster and from the stores that the
// administrator or the release configures.
//
// Package internal/releaseimage/signature defines which signatures are valid.
package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// storedSignaturesName is the ConfigMap that valid signatures are written to.
const storedSignaturesName = "signatures-managed"

// The namespace of the ConfigMaps with the CAs of stores, and their key.
const (
	caNamespace = "openshift-config"
	caKey       = "ca.crt"
)

// requestTimeout is the timeout of one request to a store.
const requestTimeout = 30 * time.Second

// Errors about the stores that the administrator configures.
var (
	errNoStores  = errors.New("ClusterVersion spec.signatureStores is an empty array. Unset signatureStores entirely if you want to enable the default signature stores")
	errExhausted = errors.New("ClusterVersion spec.signatureStores exhausted without finding a valid signature")
)

// Trust creates verifiers. It caches the last verifier, with the signatures that it verified,
// while its configuration is unchanged. Its methods may be called concurrently.
type Trust struct {
	client     client.Client
	reader     client.Reader
	configMaps *signature.ConfigMapStore

	mu       sync.Mutex
	config   verifierConfig
	verifier acceptance.Verifier
}

// verifierConfig is the configuration of a verifier.
type verifierConfig struct {
	data        map[string]string
	stores      []configv1.SignatureStore
	hasStores   bool
	proxy       updates.Proxy
	authorities string
}

// New returns a Trust. The client writes, and the reader reads from the API server.
func New(c client.Client, reader client.Reader) *Trust {
	t := &Trust{client: c, reader: reader}
	t.configMaps = &signature.ConfigMapStore{List: t.listSignatureConfigMaps}
	return t
}

// listSignatureConfigMaps returns the ConfigMaps that contain signatures.
func (t *Trust) listSignatureConfigMaps(ctx context.Context) ([]corev1.ConfigMap, error) {
	var list corev1.ConfigMapList
	err := t.reader.List(ctx, &list, client.InNamespace(signature.Namespace), client.HasLabels{signature.Label})
	return list.Items, err
}

// Verifier returns the verifier that a payload configures, using the manifests that belong to
// the cluster. Stores that are not nil replace those of the payload. If the payload is nil, or
// names no keys, the verifier rejects all releases.
func (t *Trust) Verifier(payload *release.Payload, cluster release.Cluster, stores []configv1.SignatureStore, proxy updates.Proxy, authorities []byte) acceptance.Verifier {
	data, err := findVerificationData(payload, cluster)
	switch {
	case err != nil:
		return failingVerifier{err}
	case data == nil:
		return signature.Reject{}
	}

	cfg := verifierConfig{data: data, stores: stores, hasStores: stores != nil, proxy: proxy, authorities: string(authorities)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.verifier == nil || !reflect.DeepEqual(t.config, cfg) {
		t.config = cfg
		t.verifier = t.newVerifier(cfg)
	}

	return t.verifier
}

// findVerificationData returns the data of the first ConfigMap that names keys; nil if there is
// none.
func findVerificationData(payload *release.Payload, cluster release.Cluster) (map[string]string, error) {
	if payload == nil {
		return nil, nil
	}

	for _, manifest := range payload.Manifests {
		if _, named := manifest.Object.GetAnnotations()[signature.AnnotationConfigMap]; !named || manifest.Key().Kind != "ConfigMap" || manifest.Key().Group != "" {
			continue
		}
		if _, excluded := cluster.Excludes(manifest); excluded {
			continue
		}

		var configMap corev1.ConfigMap
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest.Object.Object, &configMap); err != nil {
			return nil, fmt.Errorf("%s configures the keys of releases and is invalid: %w", manifest.File, err)
		}

		data := maps.Clone(configMap.Data)
		if data == nil {
			data = map[string]string{}
		}

		for key, value := range configMap.BinaryData {
			data[key] = string(value) // binary keyrings
		}

		return data, nil
	}

	return nil, nil
}

func (t *Trust) newVerifier(cfg verifierConfig) acceptance.Verifier {
	plain, err := newHTTPClient(cfg, nil)
	if err != nil {
		return failingVerifier{err}
	}

	config, err := signature.ParseConfig(cfg.data, plain)
	if err != nil {
		return failingVerifier{fmt.Errorf("the verification configuration of the running release is invalid: %w", err)}
	}
	if cfg.hasStores {
		config.Stores = []signature.Store{t.newConfiguredStores(cfg)}
	}

	return config.Verifier(t.configMaps)
}

// newConfiguredStores returns the stores that the administrator configures.
func (t *Trust) newConfiguredStores(cfg verifierConfig) signature.Store {
	if len(cfg.stores) == 0 {
		return failingStore{"spec.signatureStores", errNoStores}
	}

	var stores []signature.Store
	for _, s := range cfg.stores {
		stores = append(stores, &configuredStore{trust: t, config: cfg, store: s})
	}
	return signature.Serial(signature.Parallel(stores...), failingStore{"spec.signatureStores", errExhausted})
}

// newHTTPClient returns a client for stores. It uses the cluster's proxy and trusts the
// cluster's CAs and those in more.
func newHTTPClient(cfg verifierConfig, more []byte) (*http.Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the CA certificates of the system: %w", err)
	}
	if strings.TrimSpace(cfg.authorities) != "" && !roots.AppendCertsFromPEM([]byte(cfg.authorities)) {
		return nil, errors.New("the additional CA bundle of the cluster contains no certificate")
	}
	if more != nil && !roots.AppendCertsFromPEM(more) {
		return nil, fmt.Errorf("%s contains no certificate", caKey)
	}

	proxy := http.ProxyFromEnvironment
	if cfg.proxy != (updates.Proxy{}) {
		proxyFunc := (&httpproxy.Config{HTTPProxy: cfg.proxy.HTTP, HTTPSProxy: cfg.proxy.HTTPS, NoProxy: cfg.proxy.No}).ProxyFunc()
		proxy = func(r *http.Request) (*url.URL, error) { return proxyFunc(r.URL) }
	}

	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		Proxy: proxy, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: requestTimeout / 3,
		IdleConnTimeout: requestTimeout,
	}}, nil
}

// configuredStore is a store that the administrator configures. It is opened for each request,
// because its CA is in a ConfigMap.
type configuredStore struct {
	trust  *Trust
	config verifierConfig
	store  configv1.SignatureStore
}

// String returns the URL without credentials.
func (n *configuredStore) String() string {
	if parsed, err := url.Parse(n.store.URL); err == nil {
		return parsed.Redacted()
	}
	return "a store of spec.signatureStores"
}

// Signatures returns the signatures in the store.
func (n *configuredStore) Signatures(ctx context.Context, digest signature.Digest) iter.Seq2[[]byte, error] {
	store, err := n.openStore(ctx)
	if err != nil {
		return failingStore{n.String(), err}.Signatures(ctx, digest)
	}
	return store.Signatures(ctx, digest)
}

func (n *configuredStore) openStore(ctx context.Context) (signature.Store, error) {
	var authorities []byte
	if name := n.store.CA.Name; name != "" {
		var configMap corev1.ConfigMap
		key := client.ObjectKey{Namespace: caNamespace, Name: name}
		if err := n.trust.reader.Get(ctx, key, &configMap); err != nil {
			return nil, fmt.Errorf("reading the CA of store %s from ConfigMap %s: %w", n, key, err)
		}
		authorities = []byte(configMap.Data[caKey])
	}

	c, err := newHTTPClient(n.config, authorities)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", n, err)
	}

	return signature.OpenStore(n.store.URL, c)
}

// failingStore is a store that only returns an error.
type failingStore struct {
	name string
	err  error
}

// String returns the name.
func (f failingStore) String() string { return f.name }

// Signatures returns the error.
func (f failingStore) Signatures(context.Context, signature.Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { yield(nil, f.err) }
}

// failingVerifier is a verifier that always returns an error, because its configuration is
// invalid.
type failingVerifier struct{ err error }

// Verify returns the error.
func (r failingVerifier) Verify(context.Context, string) error { return r.err }

// StoreSignatures writes the valid signatures to a ConfigMap, so that a later operator finds them without a
// network. Existing signatures stay.
func (t *Trust) StoreSignatures(ctx context.Context) error {
	t.mu.Lock()
	statements, ok := t.verifier.(*signature.Statements)
	t.mu.Unlock()
	if !ok {
		return nil
	}

	good := map[string][]byte{}
	for digest, signatures := range statements.Verified() {
		for i, s := range signatures {
			good[fmt.Sprintf("%s-%d", strings.Replace(digest, ":", "-", 1), i+1)] = s
		}
	}

	if len(good) == 0 {
		return nil
	}

	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: signature.Namespace, Name: storedSignaturesName}}
	err := t.reader.Get(ctx, client.ObjectKeyFromObject(stored), stored)
	isNew := apierrors.IsNotFound(err)
	if err != nil && !isNew {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", signature.Namespace, storedSignaturesName, err)
	}
	if !addSignatures(stored, good) {
		return nil
	}

	if isNew {
		err = t.client.Create(ctx, stored)
	} else {
		err = t.client.Update(ctx, stored)
	}

	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", signature.Namespace, storedSignaturesName, err)
	}

	return nil
}

// maxStoredBytes is the maximum size of the stored signatures. An object may have about 1 MiB.
const maxStoredBytes = 700 << 10

// addSignatures adds signatures to a ConfigMap and reports whether it changed. If the size
// exceeds the limit, only the new ones are kept.
func addSignatures(stored *corev1.ConfigMap, good map[string][]byte) bool {
	before, label := stored.BinaryData, stored.Labels[signature.Label]
	merged := maps.Clone(before)
	if merged == nil {
		merged = map[string][]byte{}
	}

	maps.Copy(merged, good)
	size := 0
	for _, s := range merged {
		size += len(s)
	}

	if size > maxStoredBytes {
		merged = good
	}
	if _, labelled := stored.Labels[signature.Label]; labelled && label == "" && maps.EqualFunc(before, merged, slices.Equal) {
		return false
	}
	if stored.Labels == nil {
		stored.Labels = map[string]string{}
	}

	stored.Labels[signature.Label] = ""
	stored.BinaryData = merged
	return true
}

// Package trust makes the verifiers of a cluster's releases: by the keys that the running
// release names, and the signatures in the cluster's ConfigMaps, in the stores that its
// administrator names, or in those that the release names.
//
// What a good signature is, is decided by internal/releaseimage/signature.
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

// keptName is the ConfigMap that good signatures are written to.
const keptName = "signatures-managed"

// caNamespace has the ConfigMaps that hold the authorities of stores, at caKey.
const (
	caNamespace = "openshift-config"
	caKey       = "ca.crt"
)

// requestTimeout bounds one question to a store.
const requestTimeout = 30 * time.Second

// Errors of stores that the administrator names, as they are known.
var (
	errNoStores  = errors.New("ClusterVersion spec.signatureStores is an empty array. Unset signatureStores entirely if you want to enable the default signature stores")
	errExhausted = errors.New("ClusterVersion spec.signatureStores exhausted without finding a valid signature")
)

// Trust makes verifiers. It keeps the last one while what it was made of stays, and with it
// what that verified. Its methods may be called by several goroutines.
type Trust struct {
	client     client.Client
	reader     client.Reader
	configMaps *signature.ConfigMapStore

	mu       sync.Mutex
	of       question
	verifier acceptance.Verifier
}

// question is what a verifier is made of.
type question struct {
	data        map[string]string
	stores      []configv1.SignatureStore
	hasStores   bool
	proxy       updates.Proxy
	authorities string
}

// New makes a Trust. The client writes, the reader reads from the API server.
func New(c client.Client, reader client.Reader) *Trust {
	t := &Trust{client: c, reader: reader}
	t.configMaps = &signature.ConfigMapStore{List: t.list}
	return t
}

// list returns the ConfigMaps that hold signatures.
func (t *Trust) list(ctx context.Context) ([]corev1.ConfigMap, error) {
	var list corev1.ConfigMapList
	err := t.reader.List(ctx, &list, client.InNamespace(signature.Namespace), client.HasLabels{signature.Label})
	return list.Items, err
}

// Verifier returns the verifier of a payload, as far as its manifests belong to the cluster.
// Stores that are not nil replace those of the payload. A nil payload, or one that names no
// keys, trusts nothing.
func (t *Trust) Verifier(payload *release.Payload, cluster release.Cluster, stores []configv1.SignatureStore, proxy updates.Proxy, authorities []byte) acceptance.Verifier {
	data, err := keysOf(payload, cluster)
	switch {
	case err != nil:
		return refuses{err}
	case data == nil:
		return signature.Reject{}
	}

	q := question{data: data, stores: stores, hasStores: stores != nil, proxy: proxy, authorities: string(authorities)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.verifier == nil || !reflect.DeepEqual(t.of, q) {
		t.of, t.verifier = q, t.make(q)
	}

	return t.verifier
}

// keysOf returns the data of the first ConfigMap that names keys; nil when there is none.
func keysOf(payload *release.Payload, cluster release.Cluster) (map[string]string, error) {
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
			return nil, fmt.Errorf("%s names the keys of releases and cannot be read: %w", manifest.File, err)
		}

		data := maps.Clone(configMap.Data)
		if data == nil {
			data = map[string]string{}
		}

		for key, value := range configMap.BinaryData {
			data[key] = string(value) // keyrings that are not armored
		}

		return data, nil
	}

	return nil, nil
}

func (t *Trust) make(q question) acceptance.Verifier {
	plain, err := httpClient(q, nil)
	if err != nil {
		return refuses{err}
	}

	config, err := signature.ParseConfig(q.data, plain)
	if err != nil {
		return refuses{fmt.Errorf("the keys that the running release names cannot be used: %w", err)}
	}
	if q.hasStores {
		config.Stores = []signature.Store{t.custom(q)}
	}

	return config.Verifier(t.configMaps)
}

// custom is the stores that the administrator names.
func (t *Trust) custom(q question) signature.Store {
	if len(q.stores) == 0 {
		return failing{"spec.signatureStores", errNoStores}
	}

	var stores []signature.Store
	for _, s := range q.stores {
		stores = append(stores, &named{trust: t, q: q, store: s})
	}
	return signature.Serial(signature.Parallel(stores...), failing{"spec.signatureStores", errExhausted})
}

// httpClient makes a client of stores, over the cluster's proxy, that trusts its authorities.
func httpClient(q question, more []byte) (*http.Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authorities of the system: %w", err)
	}
	if strings.TrimSpace(q.authorities) != "" && !roots.AppendCertsFromPEM([]byte(q.authorities)) {
		return nil, errors.New("the additional CA bundle of the cluster contains no certificate")
	}
	if more != nil && !roots.AppendCertsFromPEM(more) {
		return nil, fmt.Errorf("%s holds no certificate", caKey)
	}

	proxy := http.ProxyFromEnvironment
	if q.proxy != (updates.Proxy{}) {
		of := (&httpproxy.Config{HTTPProxy: q.proxy.HTTP, HTTPSProxy: q.proxy.HTTPS, NoProxy: q.proxy.No}).ProxyFunc()
		proxy = func(r *http.Request) (*url.URL, error) { return of(r.URL) }
	}

	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		Proxy: proxy, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: requestTimeout / 3,
		IdleConnTimeout: requestTimeout,
	}}, nil
}

// named is a store that the administrator names. It is opened when it is asked, for its
// authorities lie in a ConfigMap.
type named struct {
	trust *Trust
	q     question
	store configv1.SignatureStore
}

// String names the store without credentials.
func (n *named) String() string {
	if parsed, err := url.Parse(n.store.URL); err == nil {
		return parsed.Redacted()
	}
	return "a store of spec.signatureStores"
}

// Signatures returns what the store has.
func (n *named) Signatures(ctx context.Context, digest signature.Digest) iter.Seq2[[]byte, error] {
	store, err := n.open(ctx)
	if err != nil {
		return failing{n.String(), err}.Signatures(ctx, digest)
	}
	return store.Signatures(ctx, digest)
}

func (n *named) open(ctx context.Context) (signature.Store, error) {
	var authorities []byte
	if name := n.store.CA.Name; name != "" {
		var configMap corev1.ConfigMap
		key := client.ObjectKey{Namespace: caNamespace, Name: name}
		if err := n.trust.reader.Get(ctx, key, &configMap); err != nil {
			return nil, fmt.Errorf("reading the authorities of store %s from ConfigMap %s: %w", n, key, err)
		}
		authorities = []byte(configMap.Data[caKey])
	}

	c, err := httpClient(n.q, authorities)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", n, err)
	}

	return signature.OpenStore(n.store.URL, c)
}

// failing is a store that has nothing but an error.
type failing struct {
	name string
	err  error
}

// String returns the name.
func (f failing) String() string { return f.name }

// Signatures returns the error.
func (f failing) Signatures(context.Context, signature.Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { yield(nil, f.err) }
}

// refuses is a verifier that cannot be made.
type refuses struct{ err error }

// Verify returns the error.
func (r refuses) Verify(context.Context, string) error { return r.err }

// Keep writes the signatures that were good to a ConfigMap of the cluster, so that a later
// operator finds them without a network. Those that are there already stay.
func (t *Trust) Keep(ctx context.Context) error {
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

	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: signature.Namespace, Name: keptName}}
	err := t.reader.Get(ctx, client.ObjectKeyFromObject(kept), kept)
	isNew := apierrors.IsNotFound(err)
	if err != nil && !isNew {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", signature.Namespace, keptName, err)
	}
	if !add(kept, good) {
		return nil
	}

	if isNew {
		err = t.client.Create(ctx, kept)
	} else {
		err = t.client.Update(ctx, kept)
	}

	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", signature.Namespace, keptName, err)
	}

	return nil
}

// maxKept is how many bytes of signatures are kept: an object may have about 1 MiB.
const maxKept = 700 << 10

// add adds signatures to a ConfigMap, and tells whether it changed. When they become too
// many, only the new ones stay.
func add(kept *corev1.ConfigMap, good map[string][]byte) bool {
	before, label := kept.BinaryData, kept.Labels[signature.Label]
	merged := maps.Clone(before)
	if merged == nil {
		merged = map[string][]byte{}
	}

	maps.Copy(merged, good)
	size := 0
	for _, s := range merged {
		size += len(s)
	}

	if size > maxKept {
		merged = good
	}
	if _, labelled := kept.Labels[signature.Label]; labelled && label == "" && maps.EqualFunc(before, merged, slices.Equal) {
		return false
	}
	if kept.Labels == nil {
		kept.Labels = map[string]string{}
	}

	kept.Labels[signature.Label], kept.BinaryData = "", merged
	return true
}

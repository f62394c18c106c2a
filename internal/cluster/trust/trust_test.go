package trust

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/signingkey"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// testSigner signs releases.
type testSigner struct {
	signer *signature.Signer
	public []byte
}

func newTestSigner(t *testing.T) testSigner {
	t.Helper()
	key := signingkey.NewEdDSA(t, "releases")
	signer, err := signature.ParseSigner(key.Private, nil)
	if err != nil {
		t.Fatal(err)
	}
	return testSigner{signer, key.Public}
}

func (p testSigner) sign(t *testing.T, digest signature.Digest) []byte {
	t.Helper()
	statement, err := p.signer.Sign(digest, signature.SignOptions{Reference: "registry.example.com/release:1", Time: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return statement
}

// newDigest returns a digest that no other test uses.
func newDigest(n int) signature.Digest {
	return signature.Digest{Algorithm: "sha256", Hex: fmt.Sprintf("%064x", n)}
}

// newPayload returns a payload with the given manifests.
func newPayload(t *testing.T, manifests ...string) *release.Payload {
	t.Helper()
	files := fstest.MapFS{
		release.FileMetadata: {Data: []byte(`{"kind":"cincinnati-metadata-v0","version":"1.0.0"}`)},
		release.FileImages:   {Data: []byte(`{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"1.0.0"}}`)},
		release.FolderOwn:    {Mode: os.ModeDir | 0o755},
	}
	for i, text := range manifests {
		files[fmt.Sprintf("release-manifests/0000_10_x_%d.yaml", i)] = &fstest.MapFile{Data: []byte(text)}
	}

	p, err := release.Load(files, release.Options{})
	if err != nil {
		t.Fatal(err)
	}

	return p
}

// keysManifest returns a manifest that names the key of a signer and a store.
func keysManifest(p testSigner, store, profile string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {name: keys, annotations: {include.release.openshift.io/` + profile + `: "true", release.openshift.io/verification-config-map: ""}},
data: {store-one: "` + store + `"}, binaryData: {verifier-public-key-one: ` + base64.StdEncoding.EncodeToString(p.public) + `}}`
}

func newTrust(t *testing.T) (*Trust, client.Client) {
	t.Helper()
	c := env.Client(t, corev1.AddToScheme)
	for _, name := range []string{signature.Namespace, caNamespace} {
		err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}

	return New(c, c), c
}

// serveSignature starts a store with the signature of one digest.
func serveSignature(t *testing.T, digest signature.Digest, statement []byte, start func(http.Handler) *httptest.Server) *httptest.Server {
	t.Helper()
	server := start(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/"+signature.PathOf(digest, 1) {
			http.NotFound(answer, r)
			return
		}
		_, _ = answer.Write(statement)
	}))

	t.Cleanup(server.Close)
	return server
}

const profile = release.DefaultProfile

func TestTrustedSignatures(t *testing.T) {
	trust, _ := newTrust(t)
	signer, stranger := newTestSigner(t), newTestSigner(t)
	digest := newDigest(1)
	store := serveSignature(t, digest, signer.sign(t, digest), httptest.NewServer)
	foreign := serveSignature(t, digest, stranger.sign(t, digest), httptest.NewServer)
	empty := serveSignature(t, newDigest(2), nil, httptest.NewServer)
	named := func(server *httptest.Server) []configv1.SignatureStore {
		return []configv1.SignatureStore{{URL: server.URL}}
	}
	cases := map[string]struct {
		payload *release.Payload
		stores  []configv1.SignatureStore
		want    string
	}{
		"the release's store":             {payload: newPayload(t, keysManifest(signer, store.URL, profile))},
		"no payload":                      {want: "verification is not possible"},
		"no keys":                         {payload: newPayload(t), want: "verification is not possible"},
		"keys for another profile":        {payload: newPayload(t, keysManifest(signer, store.URL, "hosted")), want: "verification is not possible"},
		"the first keys count":            {payload: newPayload(t, keysManifest(stranger, store.URL, profile), keysManifest(signer, store.URL, profile)), want: "unable to verify"},
		"keys of another profile do not":  {payload: newPayload(t, keysManifest(stranger, store.URL, "hosted"), keysManifest(signer, store.URL, profile))},
		"a stranger's signature":          {payload: newPayload(t, keysManifest(signer, foreign.URL, profile)), want: "unable to verify " + digest.String() + " against keyrings: verifier-public-key-one"},
		"a store of another kind":         {payload: newPayload(t, keysManifest(signer, "ftp://x", profile)), want: `scheme "ftp"`},
		"the administrator's store":       {payload: newPayload(t, keysManifest(signer, empty.URL, profile)), stores: named(store)},
		"the administrator's store alone": {payload: newPayload(t, keysManifest(signer, store.URL, profile)), stores: named(empty), want: "spec.signatureStores exhausted without finding a valid signature"},
		"no store of the administrator":   {payload: newPayload(t, keysManifest(signer, store.URL, profile)), stores: []configv1.SignatureStore{}, want: "spec.signatureStores is an empty array"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := trust.Verifier(c.payload, release.Cluster{}, c.stores, updates.Proxy{}, nil).Verify(t.Context(), digest.String())
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got error %s, want none", signature.Detail(err))
			case c.want != "" && (err == nil || !strings.Contains(signature.Detail(err), c.want)):
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

func TestClusterSignatures(t *testing.T) {
	trust, c := newTrust(t)
	signer := newTestSigner(t)
	digest := newDigest(3)
	if err := c.Create(t.Context(), signature.ConfigMapOf(digest, [][]byte{signer.sign(t, digest)})); err != nil {
		t.Fatal(err)
	}

	p := newPayload(t, keysManifest(signer, "http://127.0.0.1:1", profile))
	verifier := trust.Verifier(p, release.Cluster{}, []configv1.SignatureStore{}, updates.Proxy{}, nil)
	if err := verifier.Verify(t.Context(), digest.String()); err != nil {
		t.Fatalf("got error %s for a signature in the cluster, want none", signature.Detail(err))
	}
	if again := trust.Verifier(p, release.Cluster{}, []configv1.SignatureStore{}, updates.Proxy{}, nil); again != verifier {
		t.Error("got a new verifier without a change, want the same")
	}

	for range 2 {
		if err := trust.StoreSignatures(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	var kept corev1.ConfigMap
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: signature.Namespace, Name: storedSignaturesName}, &kept); err != nil {
		t.Fatal(err)
	}
	if _, labelled := kept.Labels[signature.Label]; !labelled || len(kept.BinaryData["sha256-"+digest.Hex+"-1"]) == 0 {
		t.Errorf("got stored signatures %v with labels %v, want the signature and the label %s", kept.BinaryData, kept.Labels, signature.Label)
	}

	if _, other := newTrust(t); other != nil {
		fresh := New(other, other)
		if err := c.Delete(t.Context(), signature.ConfigMapOf(digest, nil)); err != nil {
			t.Fatal(err)
		}
		if err := fresh.Verifier(p, release.Cluster{}, nil, updates.Proxy{}, nil).Verify(t.Context(), digest.String()); err != nil {
			t.Errorf("got error %s with the stored signature, want none", signature.Detail(err))
		}
	}
}

// The connection to a store is verified with the CA of this store.
func TestStoreCA(t *testing.T) {
	trust, c := newTrust(t)
	signer := newTestSigner(t)
	digest := newDigest(4)
	server := serveSignature(t, digest, signer.sign(t, digest), httptest.NewTLSServer)
	p := newPayload(t, keysManifest(signer, "http://127.0.0.1:1", profile))
	stores := func(ca string) []configv1.SignatureStore {
		return []configv1.SignatureStore{{URL: server.URL, CA: configv1.ConfigMapNameReference{Name: ca}}}
	}
	verify := func(ca string, authorities []byte) error {
		return trust.Verifier(p, release.Cluster{}, stores(ca), updates.Proxy{}, authorities).Verify(t.Context(), digest.String())
	}
	if err := verify("", nil); err == nil {
		t.Error("got no error for a store with an untrusted certificate, want one")
	}
	if err := verify("none", nil); err == nil || !strings.Contains(signature.Detail(err), "openshift-config/none") {
		t.Errorf("got error %v, want one with the missing ConfigMap openshift-config/none", err)
	}

	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: caNamespace, Name: "store-ca"}, Data: map[string]string{caKey: string(ca)}}
	if err := c.Create(t.Context(), configMap); err != nil {
		t.Fatal(err)
	}
	if err := verify("store-ca", nil); err != nil {
		t.Errorf("got error %s, want none", signature.Detail(err))
	}
	if err := New(c, c).Verifier(p, release.Cluster{}, stores(""), updates.Proxy{}, ca).Verify(t.Context(), digest.String()); err != nil {
		t.Errorf("got error %s with the authorities of the cluster, want none", signature.Detail(err))
	}
	if err := verify("", []byte("none")); err == nil {
		t.Error("got no error for authorities without a certificate, want one")
	}
}

func TestStoredSignaturesLimit(t *testing.T) {
	kept := &corev1.ConfigMap{BinaryData: map[string][]byte{"old": bytes.Repeat([]byte("x"), maxStoredBytes)}}
	if !addSignatures(kept, map[string][]byte{"new": []byte("y")}) || len(kept.BinaryData) != 1 || kept.BinaryData["new"] == nil {
		t.Errorf("got %d stored signatures, want only the new one", len(kept.BinaryData))
	}
	if addSignatures(kept, map[string][]byte{"new": []byte("y")}) {
		t.Error("got a change for a signature that is already stored, want none")
	}
}

package signature

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// collectSignatures returns the signatures in a store, and the texts of errors.
func collectSignatures(ctx context.Context, store Store, of Digest) []string {
	var found []string
	for signature, err := range store.Signatures(ctx, of) {
		if err != nil {
			found = append(found, "error: "+err.Error())
			continue
		}
		found = append(found, string(signature))
	}

	return found
}

// fakeServer is a web server with files that records requests.
type fakeServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
}

func newFakeServer(t *testing.T, answer http.HandlerFunc) *fakeServer {
	t.Helper()
	s := &fakeServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.URL.Path)
		s.mu.Unlock()
		answer(w, r)
	}))

	t.Cleanup(s.Close)

	return s
}

func openStore(t *testing.T, address string) Store {
	t.Helper()
	store, err := OpenStore(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestHTTPStore(t *testing.T) {
	at := func(n int) string { return "/store/sha256=" + digest.Hex + fmt.Sprintf("/signature-%d", n) }
	large := strings.Repeat("x", MaxSignatureBytes+1)
	tests := map[string]struct {
		files    map[string]string
		want     []string
		requests int
	}{
		"nothing":               {requests: 1},
		"two":                   {files: map[string]string{at(1): "a", at(2): "b"}, want: []string{"a", "b"}, requests: 3},
		"a gap ends it":         {files: map[string]string{at(1): "a", at(3): "c"}, want: []string{"a"}, requests: 2},
		"one that is too large": {files: map[string]string{at(1): large, at(2): "b"}, want: []string{"error: STORE: read sha256=" + digest.Hex + "/signature-1: it is larger than the 51200 bytes that a signature may have", "b"}, requests: 3},
		"never beyond the ninth": {
			files: map[string]string{at(1): "1", at(2): "2", at(3): "3", at(4): "4", at(5): "5", at(6): "6", at(7): "7", at(8): "8", at(9): "9", at(10): "10"},
			want:  []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}, requests: 9,
		},
		"a failure ends it": {
			files: map[string]string{at(1): "500", at(2): "b"},
			want:  []string{"error: STORE: read sha256=" + digest.Hex + "/signature-1: the server answered 500 Internal Server Error"}, requests: 1,
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newFakeServer(t, func(w http.ResponseWriter, r *http.Request) {
				content, ok := test.files[r.URL.Path]
				switch {
				case !ok:
					http.NotFound(w, r)
				case content == "500":
					http.Error(w, "no", http.StatusInternalServerError)
				default:
					fmt.Fprint(w, content)
				}
			})

			store := openStore(t, strings.Replace(s.URL, "http://", "http://user:secret@", 1)+"/store?token=secret")
			got := collectSignatures(t.Context(), store, digest)
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], s.URL+"/store", "STORE")
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(s.requests) != test.requests {
				t.Errorf("got requests of %q, want %d", s.requests, test.requests)
			}
			if strings.Contains(store.String()+strings.Join(got, ""), "secret") {
				t.Errorf("got store %s and signatures %q, want no credentials in them", store, got)
			}
		})
	}
}

func TestHTTPStoreUnavailable(t *testing.T) {
	s := newFakeServer(t, http.NotFound)
	address := strings.Replace(s.URL, "http://", "http://user:secret@", 1)
	s.Close()
	got := collectSignatures(t.Context(), openStore(t, address), digest)
	if len(got) != 1 || !strings.HasPrefix(got[0], "error: "+s.URL+": read sha256=") || strings.Contains(got[0], "secret") {
		t.Errorf("got %q, want one error without credentials", got)
	}
}

// Only the maximum size of a signature is read from an endless body.
func TestEndlessBody(t *testing.T) {
	gone := make(chan struct{})
	s := newFakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
		defer close(gone)
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})

	for _, err := range openStore(t, s.URL).Signatures(t.Context(), digest) {
		if !errors.Is(err, errTooLarge) {
			t.Errorf("got error %v, want %v", err, errTooLarge)
		}
		break
	}

	<-gone
}

// A store that never responds does not block other stores, and ends with the context.
func TestSlowStore(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	reached := make(chan struct{}, 2)
	slow := newFakeServer(t, func(_ http.ResponseWriter, r *http.Request) {
		reached <- struct{}{}
		<-r.Context().Done()
	})
	v := newVerifier(Parallel(openStore(t, slow.URL), Memory{digest.String(): {ann.sign(t, digest)}}), ann)
	if err := v.Verify(t.Context(), digest.String()); err != nil {
		t.Error(Detail(err))
	}

	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := newVerifier(openStore(t, slow.URL), ann).Verify(ctx, other.String()); err == nil {
			t.Error("got no error for an unsigned image, want one")
		}
	}()

	<-reached
	cancel()
	<-stopped
}

func TestFolderStore(t *testing.T) {
	at := "sha256=" + digest.Hex
	store := FolderStore{Name: "folder", Files: fstest.MapFS{
		at + "/signature-1":                           {Data: []byte("a")},
		at + "/signature-2":                           {Data: make([]byte, MaxSignatureBytes+1)},
		at + "/signature-3":                           {Data: []byte("c")},
		at + "/signature-5":                           {Data: []byte("e")},
		"sha256=" + other.Hex + "/signature-1/folder": {},
	}}

	want := []string{"a", "error: folder: read " + at + "/signature-2: it is larger than the 51200 bytes that a signature may have", "c"}
	if diff := cmp.Diff(want, collectSignatures(t.Context(), store, digest)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	want = []string{"error: folder: read sha256=" + other.Hex + "/signature-1: it is not a regular file"}
	if diff := cmp.Diff(want, collectSignatures(t.Context(), store, other)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConfigMapStore(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	lists, failure := 0, errors.New("forbidden")
	at := now
	var held []corev1.ConfigMap
	store := &ConfigMapStore{now: func() time.Time { return at }, List: func(context.Context) ([]corev1.ConfigMap, error) {
		lists++
		return held, failure
	}}
	v := newVerifier(store, ann)
	if err := v.Verify(t.Context(), digest.String()); err == nil || !strings.Contains(Detail(err), "list the ConfigMaps in openshift-config-managed: forbidden") {
		t.Errorf("got %v", err)
	}

	failure = nil
	held = []corev1.ConfigMap{*ConfigMapOf(other, [][]byte{ann.sign(t, other)})}
	if err := v.Verify(t.Context(), digest.String()); err == nil {
		t.Error("got no error with a signature of another digest, want one")
	}

	held = append(held, *ConfigMapOf(digest, [][]byte{[]byte("bad"), ann.sign(t, digest)}))
	if err := v.Verify(t.Context(), digest.String()); err == nil || lists != 2 {
		t.Errorf("got %d lists of the ConfigMaps within 30 seconds (error %v), want 2 and an error", lists, err)
	}

	at = at.Add(minListInterval)
	if err := v.Verify(t.Context(), digest.String()); err != nil || lists != 3 {
		t.Errorf("after 30 seconds: got %d lists of the ConfigMaps (error %v), want 3 and no error", lists, err)
	}
}

func TestConfigMapOf(t *testing.T) {
	got, err := yaml.Marshal(ConfigMapOf(digest, [][]byte{[]byte("one"), []byte("two")}))
	if err != nil {
		t.Fatal(err)
	}

	name := "sha256-" + digest.Hex
	want := "apiVersion: v1\nbinaryData:\n  " + name + "-1: b25l\n  " + name + "-2: dHdv\nkind: ConfigMap\nmetadata:\n  labels:\n" +
		"    release.openshift.io/verification-signatures: \"\"\n  name: " + name + "\n  namespace: openshift-config-managed\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	store, err := NewBundleStore("file", got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, collectSignatures(t.Context(), store, digest)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	for name, data := range map[string]string{"nothing": "", "another kind": "kind: Secret", "no YAML": "\t{", "large": strings.Repeat(" ", maxBundleBytes+1)} {
		if _, err := NewBundleStore("file", []byte(data)); err == nil || !strings.HasPrefix(err.Error(), "file: it ") {
			t.Errorf("%s: got error %v, want one with \"file: it\"", name, err)
		}
	}
}

func TestSerialStopsWhenSatisfied(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	second := &countingStore{Store: Memory{digest.String(): {[]byte("never read")}}}
	store := Serial(Memory{digest.String(): {ann.sign(t, digest)}}, second)
	if err := newVerifier(store, ann).Verify(t.Context(), digest.String()); err != nil {
		t.Error(Detail(err))
	}
	if second.read != 0 {
		t.Error("got a request to the second store, want none because the first has the signature")
	}
}

// endlessStore returns an endless sequence of invalid signatures.
type endlessStore struct{}

func (endlessStore) String() string { return "endless" }
func (endlessStore) Signatures(ctx context.Context, _ Digest) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for ctx.Err() == nil && yield([]byte("x"), nil) {
		}
	}
}

func TestEndlessStore(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	err := newVerifier(endlessStore{}, ann).Verify(t.Context(), digest.String())
	var failed *Error
	if !errors.As(err, &failed) || len(failed.Causes) != maxCauses {
		t.Errorf("got %v", err)
	}
}

func TestOpenStore(t *testing.T) {
	for address, want := range map[string]string{
		"https://user:secret@example.com/a?token=secret": "https://example.com/a",
		"http://example.com\n":                           "http://example.com",
		"file:///var/signatures":                         "file:///var/signatures",
		"gs://bucket":                                    `error: the store has the scheme "gs"; it must be http, https or file`,
		"file://host/folder":                             "error: the store must be a folder of this machine, as file:///folder",
		"https:///folder":                                "error: the store cannot be used: it must be a URL with http: or https: and a host",
		"http://[secret":                                 "error: the store is not a URL",
		"":                                               `error: the store has the scheme ""; it must be http, https or file`,
	} {
		got, err := OpenStore(address, nil)
		switch {
		case err != nil:
			if "error: "+err.Error() != want {
				t.Errorf("%q: got %v, want %s", address, err, want)
			}
		case got.String() != want:
			t.Errorf("%q: got %s, want %s", address, got, want)
		}
	}

	if _, err := NewHTTPStore(&url.URL{Scheme: "ftp", Host: "h"}, nil); err == nil {
		t.Error("scheme ftp: got no error, want one")
	}
}

// The ConfigMap of TrustOf can be parsed.
func TestTrustOf(t *testing.T) {
	ann, bob := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0), newTestSigner(t, "bob", now.AddDate(-1, 0, 0), 0)
	var binary bytes.Buffer
	if err := bob.entity.Serialize(&binary); err != nil {
		t.Fatal(err)
	}

	trust, err := NewTrustConfigMap(map[string][]byte{"ann": []byte(exportArmoredKey(t, ann)), "bob": binary.Bytes()}, []string{"https://example.com", "file:///a"})
	if err != nil {
		t.Fatal(err)
	}

	data := trust.Data
	for key, value := range trust.BinaryData {
		data[key] = string(value)
	}

	config, err := ParseConfig(data, nil)
	if err != nil || len(config.Keyrings) != 2 || joinStoreNames(config.Stores) != "https://example.com, file:///a" || len(trust.BinaryData) != 1 {
		t.Errorf("got config %v of %v (error %v), want two keyrings and two stores", config, trust, err)
	}
	if _, marked := trust.Annotations[AnnotationConfigMap]; !marked || trust.Namespace != Namespace {
		t.Errorf("got metadata %v, want the annotation in namespace %s", trust.ObjectMeta, Namespace)
	}

	for want, bad := range map[string]struct {
		keyring, store string
	}{
		"the keyring verifier-public-key-x cannot be read": {"none", "https://example.com"},
		"the store has the scheme":                         {exportArmoredKey(t, ann), "example.com"},
	} {
		if _, err := NewTrustConfigMap(map[string][]byte{"x": []byte(bad.keyring)}, []string{bad.store}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}

	for _, keyrings := range []map[string][]byte{nil, {"a b": []byte(exportArmoredKey(t, ann))}} {
		if _, err := NewTrustConfigMap(keyrings, []string{"https://example.com"}); err == nil {
			t.Errorf("keyrings %v: got no error, want one", keyrings)
		}
	}
}

func TestParseConfig(t *testing.T) {
	ann := newTestSigner(t, "ann", now.AddDate(-1, 0, 0), 0)
	good := map[string]string{"verifier-public-key-ours": exportArmoredKey(t, ann), "store-b": "http://b.example.com", "store-a": "file:///a", "note": "x"}
	config, err := ParseConfig(good, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Keyrings) != 1 || config.Keyrings[0].Name != "verifier-public-key-ours" || joinStoreNames(config.Stores) != "file:///a, http://b.example.com" {
		t.Errorf("got config %v, want one keyring and two stores", config)
	}
	if diff := cmp.Diff([]string{"note"}, config.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}

	v := config.Verifier(Memory{digest.String(): {ann.sign(t, digest)}})
	v.now = func() time.Time { return now }
	if err := v.Verify(t.Context(), digest.String()); err != nil {
		t.Error(Detail(err))
	}

	for want, data := range map[string]map[string]string{
		"no key verifier-public-key-<name> holds a keyring":             {"store-a": "http://a"},
		"no key store-<name> holds the URL of a store":                  {"verifier-public-key-ours": exportArmoredKey(t, ann)},
		"the keyring verifier-public-key-x cannot be read: ":            {"verifier-public-key-x": "y", "store-a": "http://a"},
		`store-a: the store has the scheme "ftp"; it must be http, htt`: {"verifier-public-key-ours": exportArmoredKey(t, ann), "store-a": "ftp://a"},
	} {
		if _, err := ParseConfig(data, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

package pull

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func dockerConfig(user string) map[string][]byte {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":password"))
	return map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{"quay.io":{"auth":%q}}}`, auth)}
}

func newNamespace(t *testing.T, c client.Client) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// Logins are read each time, from a Secret and from those of the program's own account.
func TestLogins(t *testing.T) {
	c := env.Client(t, addAll)
	namespace := newNamespace(t, c)
	create := func(object client.Object) {
		t.Helper()
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}

	secret := func(name string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	}
	l := &logins{
		reader: c, log: logr.Discard(),
		secret:  client.ObjectKey{Namespace: namespace, Name: "global"},
		account: client.ObjectKey{Namespace: namespace, Name: "catalogd"},
	}
	check := func(when string, want ...string) {
		t.Helper()
		configs, err := l.readAllConfigs(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}

		var users []string
		for _, config := range configs {
			for _, user := range []string{"one", "two", "three"} {
				if slices.Equal(config, dockerConfig(user)[corev1.DockerConfigJsonKey]) {
					users = append(users, user)
				}
			}
		}

		if diff := cmp.Diff(want, users); diff != "" {
			t.Errorf("%s: logins (-want +got):\n%s", when, diff)
		}
	}

	check("nothing is there")
	account := &corev1.ServiceAccount{
		ObjectMeta:       metav1.ObjectMeta{Namespace: namespace, Name: "catalogd"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "first"}, {Name: "second"}},
	}
	create(account)
	check("the account names what is not there")
	create(secret("second", dockerConfig("two")))
	check("one of the account's", "two")
	create(secret("global", dockerConfig("one")))
	create(secret("first", dockerConfig("three")))
	check("all", "one", "three", "two")
	l.account = client.ObjectKey{}
	check("outside of a cluster", "one")
	l.secret = client.ObjectKey{}
	check("none named")

	create(secret("bad", map[string][]byte{"password": []byte("x")}))
	l.secret = client.ObjectKey{Namespace: namespace, Name: "bad"}
	if _, err := l.readAllConfigs(t.Context()); err == nil || !strings.Contains(err.Error(), "has neither .dockerconfigjson nor .dockercfg") {
		t.Errorf("a secret of another type: got error %v, want that it has no docker config", err)
	}
}

func TestClientHasTheLogins(t *testing.T) {
	c := env.Client(t, addAll)
	bad := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t, c), Name: "bad"}, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("s3cr3t")}}
	if err := c.Create(t.Context(), bad); err != nil {
		t.Fatal(err)
	}

	p := &Puller{images: image.NewClient(image.Options{}), logins: &logins{reader: c, log: logr.Discard(), secret: client.ObjectKeyFromObject(bad)}}
	_, err := p.Resolve(t.Context(), "quay.io/a/b:v1")
	if err == nil || !strings.Contains(err.Error(), "the docker config is not JSON") || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("a broken pull secret: got error %v, want that it is not JSON, without its content", err)
	}

	p.mirrors = newMirrorWatcher(nil, nil, nil, logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Pull(ctx, "quay.io/a/b:v1"); err == nil || !strings.Contains(err.Error(), "are not known yet") {
		t.Errorf("before the mirrors are known: got error %v, want that they are not known yet", err)
	}
}

// A client for images that users name has the requested logins, and none of the program's.
func TestClientWith(t *testing.T) {
	c := env.Client(t, addAll)
	namespace := newNamespace(t, c)
	key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }
	for name, data := range map[string]map[string][]byte{
		"bad": {corev1.DockerConfigJsonKey: []byte("s3cr3t")}, "good": dockerConfig("one"), "other": {"password": []byte("x")},
	} {
		if err := c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}); err != nil {
			t.Fatal(err)
		}
	}

	// The program's own Secret is broken, so that reading it would be an error.
	p := &Puller{images: image.NewClient(image.Options{}), logins: &logins{reader: c, log: logr.Discard(), secret: key("bad")}}
	for name, test := range map[string]struct {
		secrets []client.ObjectKey
		want    string
	}{
		"none":               {nil, ""},
		"one, and a missing": {[]client.ObjectKey{key("missing"), key("good")}, ""},
		"not JSON":           {[]client.ObjectKey{key("bad")}, "the docker config is not JSON"},
		"no login":           {[]client.ObjectKey{key("other")}, "has neither .dockerconfigjson nor .dockercfg"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.ClientWith(t.Context(), test.secrets...)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

// A client for images that administrators name has the requested logins and the program's.
func TestClientAlsoWith(t *testing.T) {
	c := env.Client(t, addAll)
	namespace := newNamespace(t, c)
	key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }
	for name, data := range map[string]map[string][]byte{
		"bad": {corev1.DockerConfigJsonKey: []byte("s3cr3t")}, "good": dockerConfig("one"),
	} {
		if err := c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}); err != nil {
			t.Fatal(err)
		}
	}

	for name, test := range map[string]struct {
		own     client.ObjectKey
		secrets []client.ObjectKey
		want    string
	}{
		"none":              {},
		"a missing":         {secrets: []client.ObjectKey{key("missing")}},
		"one":               {secrets: []client.ObjectKey{key("good")}},
		"the program's":     {own: key("good")},
		"both":              {own: key("good"), secrets: []client.ObjectKey{key("good")}},
		"broken":            {own: key("good"), secrets: []client.ObjectKey{key("bad")}, want: "the docker config is not JSON"},
		"the program's bad": {own: key("bad"), secrets: []client.ObjectKey{key("good")}, want: "the docker config is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Puller{images: image.NewClient(image.Options{}), logins: &logins{reader: c, log: logr.Discard(), secret: test.own}}
			_, err := p.ClientAlsoWith(t.Context(), test.secrets...)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

func TestSecretKey(t *testing.T) {
	for _, text := range []string{"name", "/name", "namespace/", "a/b/c"} {
		if _, err := parseSecretKey(text); err == nil || !strings.Contains(err.Error(), "NAMESPACE/NAME") {
			t.Errorf("%q: got error %v, want NAMESPACE/NAME", text, err)
		}
	}

	for text, want := range map[string]client.ObjectKey{"": {}, "a/b": {Namespace: "a", Name: "b"}} {
		if got, err := parseSecretKey(text); err != nil || got != want {
			t.Errorf("%q: got %v (error %v), want %v", text, got, err, want)
		}
	}
}

func TestOwnAccount(t *testing.T) {
	token := func(payload string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
	}
	for text, want := range map[string]string{
		token(`{"sub":"system:serviceaccount:olmv1-system:catalogd-controller-manager"}`) + "\n": "olmv1-system/catalogd-controller-manager",
		token(`{"sub":"jane"}`): "/", token(`{"sub":"system:serviceaccount:x"}`): "/", token(`{"sub":"system:serviceaccount::"}`): "/", token(`{}`): "/",
	} {
		got, err := parseTokenSubject(text)
		if err != nil || got.String() != want {
			t.Errorf("%s: got %s (error %v), want %s", text, got, err, want)
		}
	}

	for _, text := range []string{"", "opaque", "a.b", "a.!!.c", token(`[]`), strings.Repeat("x", maxTokenBytes+1)} {
		if _, err := parseTokenSubject(text); err == nil {
			t.Errorf("%.20q: got no error, want one", text)
		}
	}

	if got, err := ownServiceAccount(&rest.Config{}); err != nil || got.Name != "" {
		t.Errorf("outside of a cluster: got service account %v (error %v), want none", got, err)
	}
	if _, err := ownServiceAccount(&rest.Config{BearerTokenFile: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a missing token: got no error, want one")
	}
}

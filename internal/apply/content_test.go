package apply

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func gzipData(t testing.TB, data []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return buffer.Bytes()
}

func configMapManifest(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"ns"}}`, name)
}

func ref(key string) olmv1.ClusterObjectSetObject {
	return olmv1.ClusterObjectSetObject{Ref: &olmv1.ObjectSourceRef{Name: "objects", Key: key}}
}

func inline(manifest string) olmv1.ClusterObjectSetObject {
	return olmv1.ClusterObjectSetObject{Object: builder.FromYAML(manifest)}
}

func TestLoad(t *testing.T) {
	c := env.Client(t, corev1.AddToScheme)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "objects"}, Type: olmv1.SecretTypeObjectData,
		Data: map[string][]byte{
			"plain": []byte(configMapManifest("plain")), "zipped": gzipData(t, []byte(configMapManifest("zipped"))),
			"list": []byte(`{"apiVersion":"v1","kind":"List","items":[]}`), "text": []byte("s3cret"), "cut": gzipData(t, []byte(configMapManifest("cut")))[:20],
			"bomb": gzipData(t, bytes.Repeat([]byte(" "), maxObjectBytes+1)), "nameless": []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`),
		},
	}
	if err := c.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}

	cases := []struct {
		name      string
		objects   []olmv1.ClusterObjectSetObject
		loaded    []string
		missing   []string
		malformed []string
	}{
		{"inline and in Secrets", []olmv1.ClusterObjectSetObject{inline(configMapManifest("inline")), ref("plain"), ref("zipped")}, []string{"inline", "plain", "zipped"}, nil, nil},
		{"missing key", []olmv1.ClusterObjectSetObject{ref("none"), ref("plain")}, []string{"plain"}, []string{"default/objects[none]"}, nil},
		{"missing Secret", []olmv1.ClusterObjectSetObject{{Ref: &olmv1.ObjectSourceRef{Name: "none", Key: "x"}}, {Ref: &olmv1.ObjectSourceRef{Name: "none", Key: "y"}}},
			nil, []string{"default/none"}, nil},
		{"not an object", []olmv1.ClusterObjectSetObject{ref("text")}, nil, nil, []string{`phase "p", object 0: Secret "default/objects", key "text": the value is not an object in JSON with a kind`}},
		{"list", []olmv1.ClusterObjectSetObject{ref("list")}, nil, nil, []string{`phase "p", object 0: Secret "default/objects", key "list": the value is a list, not an object`}},
		{"cut off", []olmv1.ClusterObjectSetObject{ref("cut")}, nil, nil, []string{`phase "p", object 0: Secret "default/objects", key "cut": decompressing: unexpected EOF`}},
		{"too large", []olmv1.ClusterObjectSetObject{ref("bomb")}, nil, nil, []string{`phase "p", object 0: Secret "default/objects", key "bomb": the object has more than 3145728 bytes`}},
		{"without name", []olmv1.ClusterObjectSetObject{ref("nameless")}, nil, nil, []string{`phase "p", object 0: apiVersion, kind and metadata.name must be set`}},
		{"neither", []olmv1.ClusterObjectSetObject{{}}, nil, nil, []string{`phase "p", object 0: it has neither object nor ref`}},
		{"twice", []olmv1.ClusterObjectSetObject{ref("plain"), inline(configMapManifest("plain"))}, []string{"plain"}, nil,
			[]string{`phase "p", object 1: ConfigMap "ns/plain" is there twice, also as phase "p", object 0`}},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			content, err := Load(t.Context(), c, &olmv1.ClusterObjectSet{Spec: olmv1.ClusterObjectSetSpec{
				Phases: []olmv1.ClusterObjectSetPhase{{Name: "p", Objects: test.objects}},
			}}, "default")
			if err != nil {
				t.Fatal(err)
			}

			var loaded, malformed []string
			for _, object := range content.Phases[0].Objects {
				loaded = append(loaded, object.Manifest.GetName())
			}

			for _, err := range content.Malformed {
				malformed = append(malformed, err.Error())
			}

			if diff := cmp.Diff([][]string{test.loaded, test.missing, test.malformed}, [][]string{loaded, content.Missing, malformed}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoadNotesMutableSecretsOnce(t *testing.T) {
	c := env.Client(t, corev1.AddToScheme)
	var objects []olmv1.ClusterObjectSetObject
	for name, immutable := range map[string]bool{"fixed": true, "open": false} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: olmv1.SecretTypeObjectData, Immutable: &immutable,
			Data: map[string][]byte{"a": []byte(configMapManifest(name + "-a")), "b": []byte(configMapManifest(name + "-b"))},
		}
		if err := c.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "b"} {
			objects = append(objects, olmv1.ClusterObjectSetObject{Ref: &olmv1.ObjectSourceRef{Name: name, Key: key}})
		}
	}

	content, err := Load(t.Context(), c, &olmv1.ClusterObjectSet{Spec: olmv1.ClusterObjectSetSpec{
		Phases: []olmv1.ClusterObjectSetPhase{{Name: "p", Objects: objects}},
	}}, "default")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"default/open"}, content.Mutable); diff != "" {
		t.Errorf("mutable Secrets (-want +got):\n%s", diff)
	}
	if got := len(content.Phases[0].Objects); got != 4 {
		t.Errorf("got %d objects, want 4: a removal needs all of them", got)
	}
}

func TestDigestsDependOnTheObjectsOnly(t *testing.T) {
	digests := func(manifests ...string) []olmv1.ObservedPhase {
		p := Phase{Name: "p"}
		for _, manifest := range manifests {
			p.Objects = append(p.Objects, Object{Manifest: builder.FromYAML(manifest)})
		}

		result, err := (&Content{Phases: []Phase{p}}).Digests()
		if err != nil {
			t.Fatal(err)
		}

		return result
	}

	first := digests(configMapManifest("a"), configMapManifest("b"))
	if !strings.HasPrefix(first[0].Digest, "sha256:") || len(first[0].Digest) != 71 || first[0].Name != "p" {
		t.Errorf("got digest %+v", first[0])
	}

	same := digests(`{"kind":"ConfigMap","metadata":{"namespace":"ns","name":"a"},"apiVersion":"v1"}`, configMapManifest("b"))
	if diff := cmp.Diff(first, same); diff != "" {
		t.Errorf("the order of keys changes the digest: %s", diff)
	}
	if cmp.Equal(first, digests(configMapManifest("b"), configMapManifest("a"))) || cmp.Equal(first, digests(configMapManifest("a"))) {
		t.Error("different objects have the same digest")
	}
}

func TestProtectionOfObjectBeatsPhaseBeatsSet(t *testing.T) {
	const prevent, adopt, none = olmv1.CollisionProtectionPrevent, olmv1.CollisionProtectionIfNoController, olmv1.CollisionProtectionNone
	for _, test := range []struct{ object, phase, set, want olmv1.CollisionProtection }{
		{"", "", "", prevent}, {"", "", none, none}, {"", adopt, none, adopt}, {prevent, adopt, none, prevent},
	} {
		object := inline(configMapManifest("a"))
		object.CollisionProtection = test.object
		content, err := Load(t.Context(), nil, &olmv1.ClusterObjectSet{Spec: olmv1.ClusterObjectSetSpec{
			CollisionProtection: test.set,
			Phases:              []olmv1.ClusterObjectSetPhase{{Name: "p", CollisionProtection: test.phase, Objects: []olmv1.ClusterObjectSetObject{object}}},
		}}, "default")
		if err != nil {
			t.Fatal(err)
		}
		if got := content.Phases[0].Objects[0].Protection; got != test.want {
			t.Errorf("object %q, phase %q, set %q: got %q", test.object, test.phase, test.set, got)
		}
	}
}

// The content of any Secret results in a small object with a kind, or in an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(configMapManifest("a")))
	f.Add(gzipData(f, []byte(configMapManifest("a"))))
	f.Add([]byte(`{"kind":"List","items":[{}]}`))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		l := loader{}
		u, err := l.decodeManifest(data)
		if err == nil && (u.GetKind() == "" || u.IsList()) {
			t.Errorf("accepted %q", data)
		}
		if l.size > maxObjectBytes {
			t.Errorf("got %d bytes read", l.size)
		}
	})
}

package catalogs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidateImageReference(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	for ref, want := range map[string]string{
		"registry.example.com/kettle:v1":            "",
		"registry.example.com:5000/a/b/kettle:v1":   "",
		"localhost/kettle:v1":                       "",
		"localhost:5000/kettle" + digest:            "",
		"docker.io/library/kettle:v1":               "",
		"docker.io/kettle:v1":                       "repository name must be canonical: repositories of docker.io have two parts, such as docker.io/library/kettle; a valid reference is registry.example.com/team/image:v1",
		"index.docker.io/library/kettle:v1":         "repository name must be canonical: the registry index.docker.io is named docker.io; a valid reference is registry.example.com/team/image:v1",
		"kettle":                                    "repository name must be canonical: it does not start with a registry; a valid reference is registry.example.com/team/image:v1",
		"kettle:v1":                                 "repository name must be canonical: it does not start with a registry; a valid reference is registry.example.com/team/image:v1",
		"cooks/kettle:v1":                           "repository name must be canonical: it does not start with a registry; a valid reference is registry.example.com/team/image:v1",
		"./kettle":                                  "tag or digest is needed",
		"registry.example.com/":                     "repository name must be canonical: there is no repository after the registry; a valid reference is registry.example.com/team/image:v1",
		"registry.example.com/kettle":               "tag or digest is needed",
		"registry.example.com:5000/kettle":          "tag or digest is needed",
		"registry.example.com/kettle@":              "tag or digest is needed",
		"registry.example.com/kettle:v1" + digest:   "both a tag and digest",
		"registry.example.com:50/a/kettle" + digest: "",
	} {
		err := validateImageReference(ref)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", ref, err, want)
		}
	}
}

// FuzzValidateImageReference checks that accepted references name a registry and one image.
func FuzzValidateImageReference(f *testing.F) {
	f.Add("registry.example.com/kettle:v1")
	f.Add("a.b/c@:/")
	f.Fuzz(func(t *testing.T, ref string) {
		if validateImageReference(ref) != nil {
			return
		}
		domain, rest, _ := strings.Cut(ref, "/")
		if domain == "" || rest == "" || !strings.ContainsAny(rest, ":@") {
			t.Errorf("%q: got no error, want one", ref)
		}
	})
}

func TestHasRegistryLogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.json")
	if hasRegistryLogin(file, "registry.example.com/kettle:v1") {
		t.Error("got a login from a missing file, want none")
	}

	content := `{"auths":{"registry.example.com/cooks":{},"other.example.com:5000":{},"https://old.example.com":{}},"credHelpers":{"gcr.io":"gcloud"}}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}

	for ref, want := range map[string]bool{
		"registry.example.com/cooks/kettle:v1": true,
		"registry.example.com/cooks:v1":        true,
		"registry.example.com/cook/kettle:v1":  false,
		"registry.example.com/kettle:v1":       false,
		"other.example.com:5000/a/b:v1":        true,
		"other.example.com/a/b:v1":             false,
		"old.example.com/a:v1":                 true,
		"gcr.io/a/b@sha256:x":                  true,
		"":                                     false,
	} {
		if got := hasRegistryLogin(file, ref); got != want {
			t.Errorf("%q: %v", ref, got)
		}
	}

	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if hasRegistryLogin(file, "gcr.io/a:v1") {
		t.Error("got a login from an invalid file, want none")
	}
}

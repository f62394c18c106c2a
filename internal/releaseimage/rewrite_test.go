package releaseimage

import (
	"bytes"
	"strings"
	"testing"
)

const (
	pinned  = "registry.example.com/mine@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	another = "quay.io/org/a@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

func TestRewrite(t *testing.T) {
	r := newRewriter([]imageReplacement{{"quay.io/org/a:latest", pinned}, {"quay.io/org/a/b", "B"}, {"localhost:5000/c", "C"}})
	for given, want := range map[string]string{
		"quay.io/org/a":                            pinned,
		"image: quay.io/org/a:v1.2.3":              "image: " + pinned,
		`"quay.io/org/a:latest"`:                   `"` + pinned + `"`,
		"image: " + another + "\n":                 "image: " + pinned + "\n",
		"--image=quay.io/org/a:v1@" + another[14:]: "--image=" + pinned,
		"docker://quay.io/org/a:v1":                "docker://" + pinned,
		"quay.io/org/a-b:v1":                       "quay.io/org/a-b:v1",
		"quay.io/org/a/b:v1":                       "B",
		"quay.io/org/a/c:v1":                       "quay.io/org/a/c:v1",
		"mirror.io/quay.io/org/a":                  "mirror.io/quay.io/org/a",
		"xquay.io/org/a":                           "xquay.io/org/a",
		"It runs quay.io/org/a. Enough.":           "It runs " + pinned + ". Enough.",
		"quay.io/org/a, quay.io/org/a":             pinned + ", " + pinned,
		"quay.io/org/a.b":                          "quay.io/org/a.b",
		"quay.io/org/a: is an image":               pinned + ": is an image",
		"localhost:5000/c:v1":                      "C",
		"localhost:5000/cc":                        "localhost:5000/cc",
		"":                                         "",
	} {
		given = strings.ReplaceAll(given, "@"+another[14:], another[13:])
		if got := string(r.replaceImages([]byte(given))); got != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}

// Images that share a repository are matched by their complete reference.
func TestRewriteSharedRepository(t *testing.T) {
	r := newRewriter([]imageReplacement{{"quay.io/all:a", "A"}, {"quay.io/all:b", "B"}, {"quay.io/all:b-c", "C"}})
	given := "quay.io/all:a quay.io/all:b quay.io/all:b-c quay.io/all:d quay.io/all"
	if got, want := string(r.replaceImages([]byte(given))), "A B C quay.io/all:d quay.io/all"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReplaceVersions(t *testing.T) {
	known := map[string]string{"kubernetes": "1.36.6", "machine-os": "9.1.0"}
	got, err := replaceVersions([]byte("0.0.1-snapshot, 0.0.1-snapshot-kubernetes; 0.0.1-snapshot-machine-os."), "4.1.0-rc.1+x", known)
	if want := "4.1.0-rc.1, 1.36.6; 9.1.0."; err != nil || string(got) != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
	if _, err := replaceVersions([]byte("0.0.1-snapshot-kernel"), "1.0.0", known); err == nil {
		t.Error("got no error for an unknown component, want one")
	}
}

func TestParseVersions(t *testing.T) {
	for _, bad := range []string{"a", "a=", "=1.0.0", "A=1.0.0", "a=1", "a-=1.0.0"} {
		if got, err := parseVersions(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
}

func TestRepositoryOf(t *testing.T) {
	for given, want := range map[string]string{
		"a": "a", "a:b": "a", "a:5/b": "a:5/b", "a:5/b:c": "a:5/b", "a/b@sha256:c": "a/b", "a:5/b:c@sha256:d": "a:5/b", "[::1]:5/b:c": "[::1]:5/b",
	} {
		if got := RepositoryOf(given); got != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}

// Only references are changed, and a second rewrite changes nothing.
func FuzzRewrite(f *testing.F) {
	f.Add("image: quay.io/org/a:v1")
	f.Add("quay.io/org/a/b quay.io/org/a-b //quay.io/org/a@sha256:00")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}

		r := newRewriter([]imageReplacement{{"quay.io/org/a", pinned}})
		once := r.replaceImages([]byte(text))
		if !strings.Contains(text, "quay.io/org/a") && string(once) != text {
			t.Errorf("got %[2]q, want the unchanged %[1]q", text, once)
		}
		if twice := r.replaceImages(once); !bytes.Equal(twice, once) {
			t.Errorf("%q: got %q and then %q, want no second change", text, once, twice)
		}
	})
}

// Either all versions are replaced, or an error names the missing ones.
func FuzzVersions(f *testing.F) {
	f.Add("kubernetes=1.2.3,machine-os=4.5.6", "0.0.1-snapshot 0.0.1-snapshot-kubernetes")
	f.Fuzz(func(t *testing.T, label, text string) {
		if len(label)+len(text) > 4096 {
			return
		}

		versions, err := parseVersions(label)
		if err != nil {
			return
		}

		for _, version := range versions {
			if strings.Contains(version, "snapshot") {
				return // The text can also be a version.
			}
		}

		replaced, err := replaceVersions([]byte(text), "1.0.0", versions)
		if err == nil && strings.Count(text, "0.0.1-snapshot") > 0 && string(replaced) == text {
			t.Errorf("got %q unchanged, want it replaced or an error", text)
		}
	})
}

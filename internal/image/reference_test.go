package image

import (
	"strings"
	"testing"
)

func TestReferences(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for ref, want := range map[string]string{
		"quay.io/a/b:v1":            "quay.io/a/b:v1",
		"quay.io/a/b":               "quay.io/a/b:latest",
		"quay.io/a/b@" + digest:     "quay.io/a/b@" + digest,
		"quay.io/a/b:v1@" + digest:  "quay.io/a/b@" + digest,
		"localhost:5000/b:v1":       "localhost:5000/b:v1",
		"busybox":                   "docker.io/library/busybox:latest",
		"[::1]:5000/a/b":            "[::1]:5000/a/b:latest",
		"[2001:db8::1]/b@" + digest: "[2001:db8::1]/b@" + digest,
	} {
		named, err := parseReference(ref)
		if err != nil || named.String() != want {
			t.Errorf("%s: got %v (%v), want %s", ref, named, err, want)
		}
		if got := IsCanonical(ref); got != strings.Contains(ref, "@") {
			t.Errorf("IsCanonical(%s) = %v, want %v", ref, got, !got)
		}
	}

	for _, ref := range []string{"", "Quay.io/Upper", "https://u:pw@quay.io/a", "u:pw@quay.io/a/b", "quay.io/a@sha256:12", "quay.io/a@md5:d41d8cd98f00b204e9800998ecf8427e", "[::1/a", "[::1]x/a", "[::1]:99999/a", "[1.2.3.4]/a", "[fe80::1%eth0]/a", "[::1]:5000", "[]/a", strings.Repeat("a", 2000)} {
		_, err := NewClient(Options{}).Resolve(t.Context(), ref)
		wantError(t, err, KindInvalid)
		if strings.Contains(err.Error(), "pw") {
			t.Errorf("got error %v, want one without the password", err)
		}
		if !IsTerminal(err) {
			t.Errorf("got error %v, want a terminal one", err)
		}
	}
}

// TestInvalidReferences checks that errors describe the fault, and show a valid reference.
func TestInvalidReferences(t *testing.T) {
	for ref, want := range map[string]string{
		"":                   "invalid reference format",
		"quay.io/Upper":      "must be lowercase",
		"quay.io/a:b:c":      "invalid reference format",
		"quay.io/a@sha256:1": "invalid reference format",
		"quay_io.x/":         "invalid reference format",
	} {
		_, err := NewClient(Options{}).Resolve(t.Context(), ref)
		if err == nil || !strings.Contains(err.Error(), want+"; a valid reference is "+ExampleReference) {
			t.Errorf("%q: got %v, want an error with %q and a valid reference", ref, err, want)
		}
	}
}

package image

import (
	"errors"
	"strings"
	"testing"

	"go.podman.io/image/v5/manifest"
)

// FuzzReference checks that a parsed reference has an equivalent text.
func FuzzReference(f *testing.F) {
	for _, ref := range []string{
		"quay.io/a/b:v1", "busybox", "localhost:5000/x@sha256:" + strings.Repeat("0", 64), "[::1]:5000/a", "[2001:db8::1]/a/b:c", "[::1", "[fe80::1%eth0]/x", "a@b:c/d", "yy.i_o/a",
	} {
		f.Add(ref)
	}

	f.Fuzz(func(t *testing.T, ref string) {
		n, err := parseReference(ref)
		if err != nil {
			var own *kindError
			if !errors.As(err, &own) || own.kind != KindInvalid {
				t.Errorf("%q: got error %v, want that the reference is invalid", ref, err)
			}
			return
		}

		again, err := parseReference(n.String())
		if err != nil || again != n {
			t.Errorf("%q: got %+v, and %+v after formatting and parsing it again (error %v), want the same", ref, n, again, err)
		}
		if (n.tag == "") == (n.digest == "") || strings.Contains(n.repository(), "@") || n.path == "" {
			t.Errorf("%q: got unexpected %+v", ref, n)
		}
		if CheckLocation(n.repository()) != nil {
			t.Errorf("got repository %s rejected as the location of a mirror, want it accepted", n.repository())
		}
	})
}

// FuzzCredentials checks that the error for an invalid Docker config contains no secrets.
func FuzzCredentials(f *testing.F) {
	f.Add([]byte(`{"auths":{"quay.io":{"auth":"dTpw"}}}`))
	f.Add([]byte(`{"quay.io":{"username":"u","password":"s3cr3t-Pass"}}`))
	f.Add([]byte(`{"auths":{"quay.io":{"auth":"!!"},"https://index.docker.io/v1/":{"identitytoken":"x"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		creds, err := parseCredentials(data)
		if err != nil {
			if text := err.Error(); strings.Contains(text, "s3cr3t-Pass") && !strings.Contains(text, `login for "`) {
				t.Errorf("got error %v, want one without the password", err)
			}
			return
		}
		_ = findAuthEntry(creds.auths, "quay.io/a/b")
	})
}

// FuzzManifest checks that any manifest is either parsed or an error of KindContent.
func FuzzManifest(f *testing.F) {
	built, err := Build(Spec{OS: "linux", Architecture: "amd64", Layers: []Layer{{Files: []File{{Path: "/a"}}}}})
	if err != nil {
		f.Fatal(err)
	}

	index, err := topLevelManifest([]*Built{built})
	if err != nil {
		f.Fatal(err)
	}

	for _, data := range [][]byte{built.manifest.data, index.data, []byte(`{"schemaVersion":1}`), []byte(`{"manifests":[{"platform":null}]}`)} {
		f.Add(data, byte(0))
		f.Add(data, byte(5))
	}

	f.Fuzz(func(t *testing.T, data []byte, kind byte) {
		types := manifest.DefaultRequestedManifestMIMETypes
		mediaType := types[int(kind)%len(types)]
		if parsed, err := parseManifest(data, mediaType, 512); err == nil {
			for _, l := range parsed.layers {
				if l.digest.Validate() != nil {
					t.Errorf("got invalid layer digest %q accepted, want an error", l.digest)
				}
			}
		} else if !isContentError(err) {
			t.Errorf("got error %v, want a content error", err)
		}

		list, err := parsePlatforms(data, mediaType)
		if err != nil {
			if !isContentError(err) {
				t.Errorf("got error %v, want a content error", err)
			}
			return
		}

		chosen, nested := list.chooseInstance("amd64")
		for _, d := range append(nested, chosen) {
			if d != "" && d.Validate() != nil {
				t.Errorf("got invalid digest %q accepted, want an error", d)
			}
		}

		if text := missingPlatformError("amd64", list.platformNames()).Error(); len(text) > 1<<20 {
			t.Errorf("got an error of %d bytes, want a shorter one", len(text))
		}
	})
}

package fbc

import (
	_ "crypto/sha512" // The library only supports digests that are linked into the program.
	"strings"
	"testing"

	"github.com/distribution/reference"
)

const hex64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

var pullSpecs = []string{
	"", "a", "ubuntu", "ubuntu:latest", "quay.io/a/b", "quay.io/a/b:1", "quay.io/a/b@sha256:" + hex64, "quay.io/a/b:1@sha256:" + hex64,
	"quay.io/a/B:1", "quay.io/A:1", "Quay.IO/a", "localhost/a", "localhost:5000/a/b:c", "[::1]:5000/a", "[::1]/a", "[]/a", "[::g]/a", "[::1/a", "[::1]x/a",
	"docker.io/a", "index.docker.io/a", "index.docker.io/a/b", "docker.io/library/a", "a/b", "a/b/c", "A/b", "a//b", "/a", "a/", "a:", "a@", ":a", "@", "/", ":", "a:b/c", "a:1/c",
	"quay.io/a/b@sha256:0123", "quay.io/a/b@sha25:" + hex64, "quay.io/a/b@md5:" + hex64[:32], "quay.io/a/b@SHA256:" + hex64, "quay.io/a/b@sha256:" + strings.ToUpper(hex64),
	"quay.io/a/b@sha512:" + hex64 + hex64, "quay.io/a/b@sha512:" + hex64, "quay.io/a/b@sha384:" + hex64 + hex64[:32], "quay.io/a/b@sha256+b:" + hex64, "quay.io/a/b@a..b:" + hex64,
	"quay.io/a/b@a.1:" + hex64, "quay.io/a/b@.a:" + hex64, "quay.io/a/b@a.:" + hex64, "quay.io/a/b@:" + hex64, "quay.io/a/b@a-B_c.d+e9:" + hex64, "quay.io/a@b/c@sha256:" + hex64,
	"quay.io/a:1:2", "quay.io/a@x:1", hex64, "quay.io/" + hex64, strings.ToUpper(hex64), "quay.io/a.b", "quay.io/a..b", "quay.io/a__b", "quay.io/a___b", "quay.io/a---b", "quay.io/a-_b", "quay.io/a.-b",
	"quay.io/-a", "quay.io/a-", "quay.io/a_", "quay.io/_a", "foo_bar.baz/x", "foo__bar.baz/x", "Foo_bar.baz/x", "foo-.bar/x", "-foo.bar/x", "foo..bar/x", "foo.bar:/x", "foo.bar:8a/x", "foo.bar:80:90/x",
	"quay.io/a:.x", "quay.io/a:-x", "quay.io/a:_x", "quay.io/a:x.-_Y", "quay.io/a:" + strings.Repeat("x", 128), "quay.io/a:" + strings.Repeat("x", 129),
	"quay.io/" + strings.Repeat("a", 255), "quay.io/" + strings.Repeat("a", 256), strings.Repeat("a", 247), strings.Repeat("a", 248), strings.Repeat("a.", 200) + "b/c",
	"quay.io/a b", "quay.io/a\n", "quay.io/é", "quay.io/\u212a", "\u212a.io/a", "quay.io/a:\u212a", "quay.io/a:é", "ſ/a", "quay.io/a\xff", "http://quay.io/a", "quay.io/a?b", "a.b", "a.b:c",
}

func pullSpecError(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzPullSpec compares with github.com/distribution/reference.
func FuzzPullSpec(f *testing.F) {
	for _, seed := range pullSpecs {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, spec string) {
		_, want := reference.ParseNormalizedNamed(spec)
		if got := checkImagePullSpec(spec); pullSpecError(got) != pullSpecError(want) {
			t.Errorf("%q: got %q, want %q", spec, pullSpecError(got), pullSpecError(want))
		}
	})
}

// The seeds have every fault of a pull spec, so that the comparison covers all of them.
func TestPullSpecFaultsOccur(t *testing.T) {
	seen := map[string]bool{}
	for _, spec := range pullSpecs {
		seen[pullSpecError(checkImagePullSpec(spec))] = true
	}

	for _, err := range []error{nil, errReference, errUppercase, errRepositoryTooLong, errDigestFormat, errDigestLength, errDigestAlgorithm} {
		if !seen[pullSpecError(err)] {
			t.Errorf("no seed has the fault %q", pullSpecError(err))
		}
	}
}

func BenchmarkPullSpec(b *testing.B) {
	const spec = "registry.redhat.io/openshift4/ose-local-storage-operator-bundle@sha256:" + hex64
	b.ReportAllocs()
	for b.Loop() {
		if err := checkImagePullSpec(spec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPullSpecReference(b *testing.B) {
	const spec = "registry.redhat.io/openshift4/ose-local-storage-operator-bundle@sha256:" + hex64
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reference.ParseNormalizedNamed(spec); err != nil {
			b.Fatal(err)
		}
	}
}

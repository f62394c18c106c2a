package releaseimage

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// A release for all platforms of its base image is an index with a reproducible digest, and each
// platform has its own program.
func TestBuildForPlatforms(t *testing.T) {
	s := newFixture(t)
	var programs []*image.Built
	for _, architecture := range []string{"amd64", "arm64"} {
		built, err := image.Build(image.Spec{Architecture: architecture, Layers: []image.Layer{{Files: []image.File{
			{Path: "/usr/bin/program", Content: []byte(architecture)}, {Path: "/manifests/0000_00_own.yaml", Content: []byte(configMapManifest("own", "{{.ReleaseImage}}"))},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, built)
	}
	list, single := s.pushBuilt("cvo:v1", programs...), s.pushBuilt("cvo:single", programs[0])
	build := func() *Build {
		return &Build{
			FromDir: newFolder(map[string]string{"0000_10_a_1.yaml": configMapManifest("a", "")}), Name: "1.0.0",
			Images: []Mapping{{Name: DefaultBase, Image: list}}, KeepPlatforms: true,
		}
	}
	first := s.pushRelease("releases:1.0.0", build())
	if again := s.pushRelease("releases:again", build()); digestFromReference(again) != digestFromReference(first) {
		t.Errorf("got releases %s and %s of the same input, want the same digest", first, again)
	}
	if rebuilt := s.pushRelease("releases:rebuilt", &Build{FromRelease: first}); digestFromReference(rebuilt) != digestFromReference(first) {
		t.Errorf("got rebuilt release %s, want the digest of %s", rebuilt, first)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		client := s.client.ForArchitecture(architecture)
		opened, err := Open(t.Context(), client, first)
		if err != nil {
			t.Fatal(err)
		}
		if got := opened.Payload.Metadata.Architecture("x"); got != release.ArchitectureMulti || opened.Architecture != architecture || opened.Canonical != first {
			t.Errorf("for %s: got architecture %s of the release %[4]s for %[3]s, want that of the multi-architecture release", architecture, opened.Architecture, got, opened.Canonical)
		}
		if tag := NewPlan(opened).Release.Tag; tag != "1.0.0-multi" {
			t.Errorf("got mirror tag %s, want 1.0.0-multi", tag)
		}
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
		pulled, err := client.Pull(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		found, err := pulled.ReadFiles(t.Context(), 100, "usr/bin/program")
		if err != nil || len(found) != 1 {
			t.Fatalf("for %s: got files %v (error %v), want one", architecture, found, err)
		}
		for _, content := range found {
			if string(content) != architecture {
				t.Errorf("for %s: got the program of %s", architecture, content)
			}
		}
		if err := pulled.Close(); err != nil {
			t.Error(err)
		}
	}
	// An image that lacks a platform leads to a warning.
	partial := build()
	partial.Clients = s.clients
	partial.Images, partial.Include = append(partial.Images, Mapping{Name: "worker", Image: single}), []string{"worker"}
	composed := mustCompose(t, partial)
	if _, err := composed.Build(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`image "worker" is not there for linux/arm64, which the release is for`}, composed.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	plain := build()
	plain.KeepPlatforms = false
	if got := s.pushRelease("releases:plain", plain); digestFromReference(got) == digestFromReference(first) {
		t.Error("got the digest of the index for a release of one platform, want another")
	}
	for _, base := range []string{single, BaseNone} {
		alone := build()
		alone.Clients, alone.Base = s.clients, base
		if _, err := mustCompose(t, alone).Build(t.Context(), t.TempDir()); !errors.Is(err, errSinglePlatform) {
			t.Errorf("base image %s: got error %v, want errSinglePlatform", base, err)
		}
	}
}

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
		t.Errorf("the same input made %s and %s", first, again)
	}
	if rebuilt := s.pushRelease("releases:rebuilt", &Build{FromRelease: first}); digestFromReference(rebuilt) != digestFromReference(first) {
		t.Errorf("built again as %s, it was %s", rebuilt, first)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		client := s.client.ForArchitecture(architecture)
		opened, err := Open(t.Context(), client, first)
		if err != nil {
			t.Fatal(err)
		}
		if got := opened.Payload.Metadata.Architecture("x"); got != release.ArchitectureMulti || opened.Architecture != architecture || opened.Canonical != first {
			t.Errorf("for %s: %s of a release for %s, %s", architecture, opened.Architecture, got, opened.Canonical)
		}
		if tag := NewPlan(opened).Release.Tag; tag != "1.0.0-multi" {
			t.Errorf("it is mirrored as %s", tag)
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
			t.Fatalf("for %s: %v: %v", architecture, found, err)
		}
		for _, content := range found {
			if string(content) != architecture {
				t.Errorf("for %s there is the program of %s", architecture, content)
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
		t.Error("a release for one platform is the list")
	}
	for _, base := range []string{single, BaseNone} {
		alone := build()
		alone.Clients, alone.Base = s.clients, base
		if _, err := mustCompose(t, alone).Build(t.Context(), t.TempDir()); !errors.Is(err, errSinglePlatform) {
			t.Errorf("upon %s: got %v", base, err)
		}
	}
}

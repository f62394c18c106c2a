package releaseimage

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// A release for all platforms of what it is built upon is a list, made again with the same
// digest, and each platform has the program that is its own.
func TestBuildForPlatforms(t *testing.T) {
	s := newSite(t)
	var programs []*image.Built
	for _, architecture := range []string{"amd64", "arm64"} {
		built, err := image.Build(image.Spec{Architecture: architecture, Layers: []image.Layer{{Files: []image.File{
			{Path: "/usr/bin/program", Content: []byte(architecture)}, {Path: "/manifests/0000_00_own.yaml", Content: []byte(manifest("own", "{{.ReleaseImage}}"))},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, built)
	}
	list, single := s.deliver("cvo:v1", programs...), s.deliver("cvo:single", programs[0])
	build := func() *Build {
		return &Build{
			FromDir: folder(map[string]string{"0000_10_a_1.yaml": manifest("a", "")}), Name: "1.0.0",
			Images: []Mapping{{Name: DefaultBase, Image: list}}, KeepPlatforms: true,
		}
	}
	first := s.release("releases:1.0.0", build())
	if again := s.release("releases:again", build()); digestOf(again) != digestOf(first) {
		t.Errorf("the same input made %s and %s", first, again)
	}
	if rebuilt := s.release("releases:rebuilt", &Build{FromRelease: first}); digestOf(rebuilt) != digestOf(first) {
		t.Errorf("built again as %s, it was %s", rebuilt, first)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		client := s.client.For(architecture)
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
		found, err := pulled.Find(t.Context(), 100, "usr/bin/program")
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
	// An image that one of the platforms does not have is told of.
	partial := build()
	partial.Clients = s.clients
	partial.Images, partial.Include = append(partial.Images, Mapping{Name: "worker", Image: single}), []string{"worker"}
	composed := compose(t, partial)
	if _, err := composed.Build(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`image "worker" is not there for linux/arm64, which the release is for`}, composed.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	plain := build()
	plain.KeepPlatforms = false
	if got := s.release("releases:plain", plain); digestOf(got) == digestOf(first) {
		t.Error("a release for one platform is the list")
	}
	for _, base := range []string{single, BaseNone} {
		alone := build()
		alone.Clients, alone.Base = s.clients, base
		if _, err := compose(t, alone).Build(t.Context(), t.TempDir()); !errors.Is(err, errOnePlatform) {
			t.Errorf("upon %s: got %v", base, err)
		}
	}
}

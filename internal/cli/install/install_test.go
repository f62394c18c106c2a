package install

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/cli/kube"
)

// The program of a release installs its image by digest, unless another one is specified.
func TestReleasedImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for _, test := range []struct {
		name, released string
		args           []string
		want           string
	}{
		{"not a release", "", nil, "ghcr.io/mainstay-dev/mainstay:latest"},
		{"a release", "registry.example.com/mainstay@" + digest, nil, "registry.example.com/mainstay@" + digest},
		{"another image", "registry.example.com/mainstay@" + digest, []string{"--image", "mirror.example.com/mainstay:v1"}, "mirror.example.com/mainstay:v1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			releasedImage = test.released
			t.Cleanup(func() { releasedImage = "" })

			var images []string
			for line := range strings.Lines(renderManifests(t, test.args...)) {
				if image, ok := strings.CutPrefix(strings.TrimSpace(line), "image: "); ok && strings.Contains(image, "/mainstay") {
					images = append(images, image)
				}
			}

			if len(images) != 2 || images[0] != test.want || images[1] != test.want {
				t.Errorf("got images %q, want %s twice", images, test.want)
			}
		})
	}
}

// Each component has an argument for each feature gate, also if one flag contains several.
func TestFeatureGates(t *testing.T) {
	want := []string{"--feature-gates=A=true", "--feature-gates=B=false"}
	for name, args := range map[string][]string{
		"one flag":  {"--feature-gates", "A=true,B=false"},
		"two flags": {"--feature-gates", "A=true", "--feature-gates", "B=false"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for line := range strings.Lines(renderManifests(t, args...)) {
				if argument := strings.TrimPrefix(strings.TrimSpace(line), "- "); strings.HasPrefix(argument, "--feature-gates") {
					got = append(got, argument)
				}
			}

			if diff := cmp.Diff(append(want, want...), got); diff != "" {
				t.Errorf("arguments of both components (-want +got):\n%s", diff)
			}
		})
	}
}

// renderManifests returns the manifests that the command prints.
func renderManifests(t *testing.T, args ...string) string {
	t.Helper()
	cmd := NewCommand(&kube.Session{})
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"--dry-run=client", "-o", "yaml"}, args...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

package install

import (
	"bytes"
	"strings"
	"testing"

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
			cmd := NewCommand(&kube.Session{})
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetArgs(append([]string{"--dry-run=client", "-o", "yaml"}, test.args...))
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}

			var images []string
			for line := range strings.Lines(out.String()) {
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

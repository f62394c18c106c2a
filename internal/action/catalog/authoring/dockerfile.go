package authoring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// scratchBase is the name of the empty base image.
const scratchBase = "scratch"

// GenerateDockerfile writes a Dockerfile for the image of a file-based catalog next to the
// catalog's folder.
type GenerateDockerfile struct {
	// Dir is the folder of the catalog.
	Dir string
	// BaseImage is the base image. BuilderImage is the image that builds the cache. Both
	// must contain /bin/opm, unless BaseImage is "scratch".
	BaseImage, BuilderImage string
	// Labels are additional labels of the image as key=value. The last value of a key
	// applies.
	Labels []string
}

// Run writes the Dockerfile, which must not exist, and returns its name.
func (a *GenerateDockerfile) Run(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if a.BuilderImage == scratchBase {
		return "", fmt.Errorf("invalid builder image: %q", scratchBase)
	}

	labels := map[string]string{}
	for _, label := range a.Labels {
		key, value, ok := strings.Cut(label, "=")
		if !ok {
			return "", fmt.Errorf("invalid label %q", label)
		}
		labels[key] = value
	}

	dir := filepath.Clean(a.Dir)
	name := filepath.Join(filepath.Dir(dir), filepath.Base(dir)+".Dockerfile")
	exists := fmt.Errorf("path %q: %w", name, fs.ErrExist)
	if _, err := os.Lstat(name); err == nil {
		return "", exists
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}

	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("provided root path %q is not a directory", a.Dir)
	}

	// The text is rendered before the file is created, so that an error leaves no empty
	// file.
	text, err := renderCatalogDockerfile(filepath.Base(dir), a.BaseImage, a.BuilderImage, labels)
	if err != nil {
		return "", err
	}

	if err := createNewFile(name, text); errors.Is(err, fs.ErrExist) {
		return "", exists
	} else if err != nil {
		return "", err
	}

	return name, nil
}

// renderCatalogDockerfile returns the content of the Dockerfile. dir is the folder of the
// catalog in the build context.
func renderCatalogDockerfile(dir, base, builder string, labels map[string]string) ([]byte, error) {
	switch {
	case base == "":
		return nil, errors.New("base image is unset")
	case dir == "":
		return nil, errors.New("index directory is unset")
	}

	for _, text := range append(slices.Collect(maps.Keys(labels)), slices.Collect(maps.Values(labels))...) {
		if err := rejectControlCharacters(text); err != nil {
			return nil, err
		}
	}

	for _, text := range []string{dir, base, builder} {
		if err := rejectControlCharacters(text); err != nil {
			return nil, err
		}
	}

	var text bytes.Buffer
	fmt.Fprintf(&text, dockerfileBuilder, builder, dir, base)
	if base == scratchBase {
		text.WriteString(dockerfileScratch)
	} else {
		text.WriteString(dockerfileServer)
	}

	text.WriteString(dockerfileContent)
	if len(labels) > 0 {
		text.WriteString("\n# Further labels\n")
	}

	for _, key := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&text, "LABEL %s=%s\n", quoteDockerfileValue(key), quoteDockerfileValue(labels[key]))
	}

	return text.Bytes(), nil
}

// rejectControlCharacters returns an error for a text that a line of a Dockerfile cannot
// contain.
func rejectControlCharacters(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%q holds a control character: a Dockerfile cannot take it", text)
	}
	return nil
}

// quoteDockerfileValue returns a text as a quoted value of a Dockerfile.
func quoteDockerfileValue(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(text) + `"`
}

const (
	dockerfileBuilder = `# The builder image makes the cache that the catalog is served from.
# It must hold the program /bin/opm.
FROM %s as builder

# The catalog itself, and its cache
ADD %s /configs
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

FROM %s
`
	dockerfileServer = `# The base image must hold /bin/opm, which serves the catalog,
# and /bin/grpc_health_probe, which says whether it is served.

# How the catalog is served
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
`
	dockerfileScratch = `# This image holds the catalog and no program that serves it. A CatalogSource that
# uses it must say where the content is:
#   spec:
#     grpcPodConfig:
#       extractContent:
#         catalogDir: /configs
#         cacheDir: /tmp/cache
`
	dockerfileContent = `
COPY --from=builder /configs /configs
COPY --from=builder /tmp/cache /tmp/cache

# This label tells where in the image the catalog is.
# Without it the image is not recognized as a catalog.
LABEL operators.operatorframework.io.index.configs.v1=/configs
`
)

package action

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// ImageBuild builds the image of Mainstay's components from the program itself, without a
// container engine.
type ImageBuild struct {
	Registry catalogs.Registry
	Progress report.Progress

	// Binaries are the statically linked programs, one for each architecture. Several
	// result in a multi-platform image.
	Binaries []string
	// Push is the repository and tag that the image is pushed to. Empty means that it is
	// not pushed.
	Push string
	// Output is the file that the image is written to as an OCI archive. Empty means none.
	Output string
	// Authorities are PEM files with certificate authorities that the image trusts in
	// addition to the public ones.
	Authorities []string
}

// BuiltImage is the result of ImageBuild.
type BuiltImage struct {
	// Reference is <repository>@<digest>. It is empty if the image was not pushed.
	Reference string `json:"reference,omitempty"`
	// Output is the written file. It is empty if there is none.
	Output string `json:"output,omitempty"`
}

// Run builds and delivers the image.
func (a *ImageBuild) Run(ctx context.Context) (*BuiltImage, error) {
	if a.Push == "" && a.Output == "" {
		return nil, &report.Error{Object: "image", Err: errors.New("no destination is specified"), Advice: "name a repository with --push or a file with --output"}
	}

	authorities, err := imageAuthorities(a.Authorities)
	if err != nil {
		return nil, err
	}

	var images []*image.Built
	for _, name := range a.Binaries {
		built, err := buildProgram(name, authorities)
		if err != nil {
			return nil, &report.Error{Object: fmt.Sprintf("program %q", name), Err: err, Advice: "name a statically linked Linux program, as 'CGO_ENABLED=0 GOOS=linux go build' makes it"}
		}
		images = append(images, built)
	}

	result := &BuiltImage{Output: a.Output}
	if a.Output != "" {
		if err := catalogs.WriteArchive(a.Output, cmp.Or(a.Push, "localhost/mainstay:latest"), images...); err != nil {
			return nil, err
		}
		report.OrQuiet(a.Progress).Done("image written to " + a.Output)
	}

	if a.Push != "" {
		result.Reference, err = a.Registry.Client(a.Push).Push(ctx, a.Push, nil, images...)
	}

	return result, err
}

// programAliases are further names of the program in the image. OLM's pods use them to call
// opm, configmap-server and the utilities of its images. The program selects its function by the
// name.
var programAliases = []string{"/bin/configmap-server", "/bin/copy-content", "/bin/cp", "/bin/cpb", "/bin/opm"}

// temporaryFolders are where catalog servers keep the content that they serve.
var temporaryFolders = []string{"/tmp"}

// buildProgram builds an image with the program and the certificate authorities.
func buildProgram(name string, authorities []byte) (*image.Built, error) {
	content, architecture, err := catalogs.ReadProgram(name)
	if err != nil {
		return nil, err
	}

	files := []image.File{{Path: "/usr/bin/mainstay", Executable: true, Content: content}}
	for _, alias := range programAliases {
		files = append(files, image.File{Path: alias, Link: "/usr/bin/mainstay"})
	}

	files = append(files, image.File{Path: authoritiesPath, Content: authorities})
	return image.Build(image.Spec{
		Architecture: architecture,
		Entrypoint:   []string{"/usr/bin/mainstay"},
		User:         "65532:65532",
		Env:          []string{"PATH=/usr/bin:/bin"},
		Labels:       map[string]string{"org.opencontainers.image.title": "mainstay"},
		Layers:       []image.Layer{{Files: files, Temporary: temporaryFolders}},
	})
}

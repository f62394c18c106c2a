package catalogs

import (
	"context"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

const (
	// scratchBase is the name of the empty base image.
	scratchBase = "scratch"
	// opmBinaryPath is the path of opm in images that serve a catalog.
	opmBinaryPath = "/bin/opm"
)

// baseContent is the content below an image that is built without a container engine: a
// base image, a program, or nothing.
type baseContent struct {
	base         *image.Base
	program      []byte
	architecture string
}

// loadBaseContent loads the base of an image. The base is a reference, "scratch", or empty,
// which means the program. Files of a base image are written to dir and must remain there
// until the image has been delivered.
func loadBaseContent(ctx context.Context, registry Registry, base, program, dir string) (*baseContent, error) {
	switch base {
	case scratchBase:
		return &baseContent{}, nil
	case "":
		content, architecture, err := ReadProgram(program)
		if err != nil {
			return nil, &report.Error{
				Object: fmt.Sprintf("program %q", program), Err: err,
				Advice: "name an image to build on, or scratch for none: the image then holds the catalog only",
			}
		}
		return &baseContent{program: content, architecture: architecture}, nil
	}

	pulled, err := registry.Client(base).Pull(ctx, base)
	if err != nil {
		return nil, newPullError(base, err)
	}
	defer func() { _ = pulled.Close() }() // everything has been read and verified
	f := &baseContent{}
	f.base, err = pulled.Base(ctx, dir)

	return f, err
}

// includesServer reports whether the image contains an opm.
func (f *baseContent) includesServer() bool { return f.base != nil || f.program != nil }

// addToSpec adds the base to the specification of an image. If the image has an opm, it
// becomes the entrypoint with the arguments.
func (f *baseContent) addToSpec(spec *image.Spec, arguments ...string) {
	if f.includesServer() {
		spec.Base, spec.Architecture = f.base, f.architecture
	}

	if f.program != nil {
		layer := image.Layer{
			Files: []image.File{{Path: opmBinaryPath, Executable: true, Content: f.program}},
			// opm keeps its cache here, under any user ID.
			Temporary: []string{"/tmp"},
		}
		spec.Layers = append([]image.Layer{layer}, spec.Layers...)
	}

	if f.includesServer() {
		spec.Entrypoint, spec.Cmd, spec.ExposedPorts = []string{opmBinaryPath}, arguments, []string{"50051/tcp"}
	}
}

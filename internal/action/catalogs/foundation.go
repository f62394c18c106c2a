package catalogs

import (
	"context"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

const (
	// scratch is the base image that has nothing.
	scratch = "scratch"
	// opmPath is where images that serve have their opm.
	opmPath = "/bin/opm"
)

// foundation is what an image is built on which no container engine builds: another image,
// or a program, or nothing.
type foundation struct {
	base         *image.Base
	program      []byte
	architecture string
}

// lay gets the foundation of an image. The base image is a reference, scratch, or empty,
// which means the program. Files of it are put into a folder, where they have to stay until
// the image has been delivered.
func lay(ctx context.Context, registry Registry, base, program, dir string) (*foundation, error) {
	switch base {
	case scratch:
		return &foundation{}, nil
	case "":
		content, architecture, err := ReadProgram(program)
		if err != nil {
			return nil, &report.Error{
				Object: fmt.Sprintf("program %q", program), Err: err,
				Advice: "name an image to build on, or scratch for none: the image then holds the catalog only",
			}
		}
		return &foundation{program: content, architecture: architecture}, nil
	}

	pulled, err := registry.Client(base).Pull(ctx, base)
	if err != nil {
		return nil, pullError(base, err)
	}

	defer func() { _ = pulled.Close() }() // everything has been read and verified
	f := &foundation{}
	f.base, err = pulled.Base(ctx, dir)

	return f, err
}

// serves reports whether the image has an opm.
func (f *foundation) serves() bool { return f.base != nil || f.program != nil }

// under puts the foundation under an image, which runs its opm with arguments if there is
// one.
func (f *foundation) under(spec *image.Spec, arguments ...string) {
	if f.serves() {
		spec.Base, spec.Architecture = f.base, f.architecture
	}

	if f.program != nil {
		layer := image.Layer{
			Files: []image.File{{Path: opmPath, Executable: true, Content: f.program}},
			// Where it keeps what it serves, whoever it runs as.
			Temporary: []string{"/tmp"},
		}
		spec.Layers = append([]image.Layer{layer}, spec.Layers...)
	}

	if f.serves() {
		spec.Entrypoint, spec.Cmd, spec.ExposedPorts = []string{opmPath}, arguments, []string{"50051/tcp"}
	}
}

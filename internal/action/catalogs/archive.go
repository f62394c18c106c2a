package catalogs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// Delivery says where a built image goes.
type Delivery struct {
	// Push is a repository and a tag.
	Push string
	// Archive is a file, for an OCI archive.
	Archive string
	// Layout is a folder that does not exist or is empty, for an OCI layout.
	Layout string
	// Name is what the image is called in files when it is not pushed.
	Name string
}

// Nowhere tells that nobody wants the image.
func (d Delivery) Nowhere() bool { return d.Push == "" && d.Archive == "" && d.Layout == "" }

// deliver writes and pushes an image, and gives the reference by which it can be pulled if
// it was pushed.
func (d Delivery) deliver(ctx context.Context, registry Registry, progress report.Progress, built *image.Built) (string, error) {
	name := cmp.Or(d.Push, d.Name, "localhost/catalog:latest")
	if d.Archive != "" {
		if err := WriteArchive(d.Archive, name, built); err != nil {
			return "", err
		}
		report.OrQuiet(progress).Done("image written to " + d.Archive)
	}

	if d.Layout != "" {
		if err := image.WriteLayout(d.Layout, name, built); err != nil {
			return "", err
		}
		report.OrQuiet(progress).Done("image written to " + d.Layout)
	}

	if d.Push == "" {
		return "", nil
	}

	defer begin(progress, d.Push, "pushing")()
	return registry.Client(d.Push).Push(ctx, d.Push, pushing(progress, d.Push), built)
}

// WriteArchive writes images, as one OCI archive under a reference, to a file. A failure
// leaves no broken file.
func WriteArchive(name, ref string, images ...*image.Built) error {
	object := fmt.Sprintf("file %q", name)
	file, err := os.CreateTemp(filepath.Dir(name), ".mainstay-*.tar")
	if err != nil {
		return &report.Error{Object: object, Err: err}
	}

	defer func() { _ = os.Remove(file.Name()) }() // gone already when all went well
	if err := errors.Join(image.WriteArchive(file, ref, images...), file.Chmod(0o644), file.Close()); err != nil {
		return &report.Error{Object: object, Err: err}
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return &report.Error{Object: object, Err: err}
	}

	return nil
}

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

// Delivery is the set of destinations of a built image.
type Delivery struct {
	// Push is the repository and tag that the image is pushed to.
	Push string
	// Archive is the file that an OCI archive is written to.
	Archive string
	// Layout is the folder that an OCI layout is written to. It must be empty or not exist.
	Layout string
	// Name is the reference that is recorded in archives and layouts when the image is not
	// pushed.
	Name string
}

// IsEmpty reports whether the delivery has no destination.
func (d Delivery) IsEmpty() bool { return d.Push == "" && d.Archive == "" && d.Layout == "" }

// deliverImage writes and pushes an image. It returns the reference by which a pushed image
// can be pulled, and an empty string otherwise.
func (d Delivery) deliverImage(ctx context.Context, registry Registry, progress report.Progress, built *image.Built) (string, error) {
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
	defer showOperation(progress, d.Push, "pushing")()
	return registry.Client(d.Push).Push(ctx, d.Push, newPushReporter(progress, d.Push), built)
}

// WriteArchive writes images under a reference to a file as one OCI archive. The file
// appears only when everything was written.
func WriteArchive(name, ref string, images ...*image.Built) error {
	object := fmt.Sprintf("file %q", name)
	file, err := os.CreateTemp(filepath.Dir(name), ".mainstay-*.tar")
	if err != nil {
		return &report.Error{Object: object, Err: err}
	}
	defer func() { _ = os.Remove(file.Name()) }() // renamed already on success
	if err := errors.Join(image.WriteArchive(file, ref, images...), file.Chmod(0o644), file.Close()); err != nil {
		return &report.Error{Object: object, Err: err}
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return &report.Error{Object: object, Err: err}
	}

	return nil
}

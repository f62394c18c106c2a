package releases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// New puts a release together, without a container engine.
type New struct {
	Source
	Progress report.Progress

	// Build says what of. Its Clients and FromDir are set here.
	Build releaseimage.Build
	// FromDir is a folder of manifests to begin with. Empty: none.
	FromDir string
	// FromStreamFile is a file with an ImageStream to begin with. Empty: none.
	FromStreamFile string
	// MappingFile has a line NAME=IMAGE for each image. Empty: none.
	MappingFile string

	// ToImage is where the image is pushed: a repository and a tag. Empty: nowhere.
	ToImage string
	// ToFile is a file that the image is written to, as an OCI archive. Empty: none.
	ToFile string
	// ToDir is a folder that the payload is written to. Empty: none.
	ToDir string
	// ToSignature is a file for the statement about the image, to be signed elsewhere. Empty:
	// none.
	ToSignature string
	// DryRun builds it, and pushes and writes nothing.
	DryRun bool
	// Now is the time, for the name of a release that has none.
	Now func() time.Time
}

// Made is a release that was put together.
type Made struct {
	Digest  string    `json:"digest"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	// Reference is <repository>@<digest>, empty if it was not pushed.
	Reference string `json:"reference,omitempty"`
}

// Run puts the release together and delivers it.
func (a *New) Run(ctx context.Context) (*Made, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	done, err := a.prepare(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	composed, err := a.Build.Compose(ctx)
	if err != nil {
		return nil, &report.Error{Object: "release", Err: err}
	}
	for _, warning := range composed.Warnings {
		report.OrQuiet(a.Progress).Warn(warning)
	}
	dir, err := os.MkdirTemp("", "mainstay-release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // The image has been delivered.
	built, err := composed.Image(ctx, dir)
	if err != nil {
		return nil, &report.Error{Object: "release", Err: err}
	}
	made := &Made{Digest: built.Digest(), Name: composed.Metadata.Version, Created: composed.Images.Created.UTC()}
	if a.DryRun {
		return made, nil
	}
	return made, a.deliver(ctx, composed, built, made)
}

func (a *New) check() error {
	switch {
	case a.ToImage == "" && a.ToFile == "" && a.ToDir == "" && a.ToSignature == "" && !a.DryRun:
		return &report.Error{Object: "release", Err: errors.New("nowhere to put it"), Advice: "name a repository with --to-image, a file with --to-file or a folder with --to-dir, or look at it with --dry-run"}
	case strings.Contains(a.ToImage, "@"):
		return &report.Error{Object: objectOf(a.ToImage), Err: errors.New("an image is pushed to a tag, its digest follows from its content")}
	default:
		return nil
	}
}

// prepare reads the files that the release is made from.
func (a *New) prepare(ctx context.Context) (done func(), err error) {
	done = func() {}
	a.Build.Clients = a.clients
	if a.Build.FromRelease != "" {
		if a.Build.FromRelease, err = a.locate(ctx, a.Build.FromRelease); err != nil {
			return done, err
		}
	}
	if a.MappingFile != "" {
		data, err := readFile(a.MappingFile)
		if err != nil {
			return done, err
		}
		mappings, err := ParseMappings(string(data))
		if err != nil {
			return done, &report.Error{Object: fmt.Sprintf("file %q", a.MappingFile), Err: err}
		}
		a.Build.Images = append(mappings, a.Build.Images...)
	}
	if a.FromStreamFile != "" {
		data, err := readFile(a.FromStreamFile)
		if err != nil {
			return done, err
		}
		stream, err := release.ParseImageReferences(data)
		if err != nil {
			return done, &report.Error{Object: fmt.Sprintf("file %q", a.FromStreamFile), Err: err, Advice: "write it as JSON"}
		}
		a.Build.FromStream = &stream
	}
	if a.FromDir != "" {
		a.Build.FromDir, done, err = catalogs.OpenFolder(a.FromDir)
		if err != nil {
			return done, err
		}
	}
	a.name()
	return done, nil
}

// name gives a release a name that has none and that is made of images alone.
func (a *New) name() {
	if a.Build.Name == "" && a.Build.FromDir == nil && a.Build.FromRelease == "" {
		now := time.Now
		if a.Now != nil {
			now = a.Now
		}
		a.Build.Name = "0.0.1-" + now().UTC().Format("2006-01-02-150405")
	}
}

// ParseMappings reads lines NAME=IMAGE. Empty lines and those that begin with # are passed
// over.
func ParseMappings(text string) ([]releaseimage.Mapping, error) {
	var mappings []releaseimage.Mapping
	var wrong []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		mapping, err := ParseMapping(line)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		mappings = append(mappings, mapping)
	}
	return mappings, errors.Join(wrong...)
}

// ParseMapping reads NAME=IMAGE.
func ParseMapping(text string) (releaseimage.Mapping, error) {
	name, ref, ok := strings.Cut(text, "=")
	if !ok || name == "" || ref == "" {
		return releaseimage.Mapping{}, fmt.Errorf("%q must be written as NAME=IMAGE", text)
	}
	return releaseimage.Mapping{Name: name, Image: ref}, nil
}

// deliver writes and pushes the image.
func (a *New) deliver(ctx context.Context, composed *releaseimage.Composed, built *image.Built, made *Made) error {
	progress := report.OrQuiet(a.Progress)
	if a.ToDir != "" {
		if err := composed.Write(a.ToDir); err != nil {
			return &report.Error{Object: fmt.Sprintf("directory %q", a.ToDir), Err: err}
		}
		progress.Done("payload written to " + a.ToDir)
	}
	name := cmp.Or(a.ToImage, "localhost/release:"+strings.ReplaceAll(made.Name, "+", "_"))
	if a.ToFile != "" {
		if err := catalogs.WriteArchive(a.ToFile, name, built); err != nil {
			return err
		}
		progress.Done("image written to " + a.ToFile)
	}
	if a.ToSignature != "" {
		if err := a.writeStatement(made, name); err != nil {
			return err
		}
		progress.Done("statement written to " + a.ToSignature)
	}
	if a.ToImage == "" {
		return nil
	}
	reference, err := a.Registry.Client(a.ToImage).Push(ctx, a.ToImage, nil, built)
	made.Reference = reference
	return err
}

// writeStatement writes what is to be signed.
func (a *New) writeStatement(made *Made, name string) error {
	digest, err := signature.ParseDigest(made.Digest)
	if err != nil {
		return err
	}
	data, err := signature.Statement(digest, name, made.Created)
	if err != nil {
		return err
	}
	if err := os.WriteFile(a.ToSignature, append(data, '\n'), 0o644); err != nil { //nolint:gosec // it is for others to read
		return &report.Error{Object: fmt.Sprintf("file %q", a.ToSignature), Err: bare(err)}
	}
	return nil
}

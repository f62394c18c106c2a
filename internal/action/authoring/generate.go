package authoring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// Names of the files that GenerateBundle makes.
const (
	annotationsFile  = "annotations.yaml"
	bundleDockerfile = "bundle.Dockerfile"
)

// maxAnnotations is how large an existing annotations.yaml may be, in bytes.
const maxAnnotations = 1 << 20

// GenerateBundle makes the annotations and the Dockerfile that turn a folder of manifests
// into a bundle.
type GenerateBundle struct {
	Progress report.Progress

	// Directory holds the manifests.
	Directory string
	// OutputDir is where the bundle is put together: the manifests are copied to its folder
	// manifests, and the annotations go to its folder metadata. When empty the manifests
	// stay where they are, and the folder metadata stands beside theirs.
	OutputDir string
	// WorkDir is where the Dockerfile goes, and what its paths are relative to. When empty
	// it is the current folder.
	WorkDir string

	// Package is the name of the package, and Channels are its channels that the bundle is
	// in, with commas between them. When either is empty, it is taken from the package
	// manifest in the folder above Directory, if that is a tree of such manifests.
	Package, Channels string
	// DefaultChannel is the package's default channel. It may be empty.
	DefaultChannel string
	// BaseImage is the image that the Dockerfile starts from. When empty it is scratch.
	BaseImage string
	// Overwrite replaces an existing annotations.yaml and Dockerfile. Otherwise existing
	// annotations must say the same, and an existing Dockerfile stays.
	Overwrite bool
}

// GeneratedBundle is what GenerateBundle made.
type GeneratedBundle struct {
	// Description is what the annotations say.
	Description bundle.Description
	// Manifests and Metadata are the folders of the bundle.
	Manifests, Metadata string
	// Dockerfile is the file that makes an image of them.
	Dockerfile string
}

// Run makes the files.
func (a *GenerateBundle) Run(ctx context.Context) (*GeneratedBundle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	description, err := a.describe()
	if err != nil {
		return nil, err
	}

	directory, err := filepath.Abs(a.Directory)
	if err != nil {
		return nil, err
	}

	workDir, err := filepath.Abs(a.WorkDir)
	if err != nil {
		return nil, err
	}

	made := &GeneratedBundle{
		Description: description,
		Manifests:   directory,
		Metadata:    filepath.Join(filepath.Dir(directory), bundle.FolderMetadata),
		Dockerfile:  filepath.Join(workDir, bundleDockerfile),
	}

	if a.OutputDir != "" {
		out, err := filepath.Abs(a.OutputDir)
		if err != nil {
			return nil, err
		}
		made.Manifests, made.Metadata = filepath.Join(out, bundle.FolderManifests), filepath.Join(out, bundle.FolderMetadata)
		if err := copyTree(directory, made.Manifests); err != nil {
			return nil, err
		}
	}

	if err := a.writeAnnotations(made); err != nil {
		return nil, err
	}

	return made, a.writeDockerfile(made, workDir)
}

// describe finds out what the annotations are to say.
func (a *GenerateBundle) describe() (bundle.Description, error) {
	d := bundle.Description{Package: a.Package, Channels: a.Channels, DefaultChannel: a.DefaultChannel}
	files, err := bundle.ReadManifests(os.DirFS(a.Directory), ".")
	if err != nil {
		return d, fmt.Errorf("directory %s: %w", a.Directory, err)
	}

	for _, file := range files {
		if file.Data == nil && file.Err != nil {
			return d, fmt.Errorf("unable to read file %s: %w", filepath.Join(a.Directory, file.Name), file.Err)
		}
	}

	if d.MediaType, err = bundle.DetectMediaType(files, a.Directory); err != nil {
		return d, err
	}
	if d.Package != "" && d.Channels != "" {
		return d, nil
	}

	return a.infer(d)
}

// infer takes what was not given from the tree of package manifests that the folder
// stands in.
func (a *GenerateBundle) infer(d bundle.Description) (bundle.Description, error) {
	directory, err := filepath.Abs(a.Directory)
	if err != nil {
		return d, err
	}

	placement, err := bundle.Place(os.DirFS(filepath.Dir(directory)), filepath.Base(directory))
	if err != nil {
		return d, fmt.Errorf("please manually input channels and packageName, error interpreting bundle from directory %s, %w", a.Directory, err)
	}

	progress := report.OrQuiet(a.Progress)
	if d.Channels == "" {
		if d.Channels = strings.Join(placement.Channels, ","); d.Channels == "" {
			return d, errors.New("error interpreting channels, please manually input channels instead")
		}
		progress.Done("Inferred channels: " + d.Channels)
	}

	if d.Package == "" {
		d.Package = placement.Package
		progress.Done("Inferred package name: " + d.Package)
	}
	// A default channel that the bundle is not in is none of its.
	if d.DefaultChannel == "" && slices.Contains(strings.Split(d.Channels, ","), placement.DefaultChannel) {
		d.DefaultChannel = placement.DefaultChannel
		progress.Done("Inferred default channel: " + d.DefaultChannel)
	}

	return d, nil
}

func (a *GenerateBundle) writeAnnotations(made *GeneratedBundle) error {
	text, err := made.Description.AnnotationsFile()
	if err != nil {
		return err
	}

	name := filepath.Join(made.Metadata, annotationsFile)
	existing, err := readFile(name, maxAnnotations)
	switch {
	case a.Overwrite || errors.Is(err, fs.ErrNotExist):
		report.OrQuiet(a.Progress).Done("Writing " + annotationsFile + " in " + made.Metadata)
		return write(name, bytes.NewReader(text))
	case err != nil:
		return err
	}

	differences, err := made.Description.Compare(existing)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}

	switch len(differences) {
	case 0:
		return nil
	case 1:
		return errors.New(differences[0])
	default:
		return fmt.Errorf("[%s]", strings.Join(differences, ", "))
	}
}

func (a *GenerateBundle) writeDockerfile(made *GeneratedBundle, workDir string) error {
	report := report.OrQuiet(a.Progress)
	if _, err := os.Lstat(made.Dockerfile); err == nil && !a.Overwrite {
		report.Done("A " + bundleDockerfile + " already exists in " + workDir)
		return nil
	}

	manifests, err := filepath.Rel(workDir, made.Manifests)
	if err != nil {
		return err
	}

	metadata, err := filepath.Rel(workDir, made.Metadata)
	if err != nil {
		return err
	}

	base := a.BaseImage
	if base == "" {
		base = scratch
	}

	text, err := made.Description.Dockerfile(base, filepath.ToSlash(manifests), filepath.ToSlash(metadata))
	if err != nil {
		return err
	}

	report.Done("Writing " + bundleDockerfile + " in " + workDir)
	return write(made.Dockerfile, bytes.NewReader(text))
}

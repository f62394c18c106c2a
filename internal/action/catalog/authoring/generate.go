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

// Names of the files that GenerateBundle writes.
const (
	annotationsFile  = "annotations.yaml"
	bundleDockerfile = "bundle.Dockerfile"
)

// maxAnnotationsBytes limits the size of an existing annotations.yaml.
const maxAnnotationsBytes = 1 << 20

// GenerateBundle writes the annotations and the Dockerfile that turn a folder of manifests
// into a bundle.
type GenerateBundle struct {
	Progress report.Progress

	// Directory is the folder with the manifests.
	Directory string
	// OutputDir is the folder of the bundle. The manifests are copied to its folder
	// manifests, and the annotations are written to its folder metadata. If it is empty,
	// the manifests are not copied, and the folder metadata is created next to theirs.
	OutputDir string
	// WorkDir is the folder of the Dockerfile. Paths in the Dockerfile are relative to it.
	// Empty means the current folder.
	WorkDir string

	// Package is the name of the package. Channels are the channels of the bundle,
	// separated by commas. If either is empty, it is read from the package manifest in the
	// parent of Directory, if there is one.
	Package, Channels string
	// DefaultChannel is the default channel of the package. It may be empty.
	DefaultChannel string
	// BaseImage is the base image of the Dockerfile. Empty means scratch.
	BaseImage string
	// Overwrite replaces an existing annotations.yaml and Dockerfile. Without it, existing
	// annotations must be equal, and an existing Dockerfile is kept.
	Overwrite bool
}

// GeneratedBundle is the result of GenerateBundle.
type GeneratedBundle struct {
	// Description is the content of the annotations.
	Description bundle.Description
	// Manifests and Metadata are the paths of the bundle's folders.
	Manifests, Metadata string
	// Dockerfile is the path of the Dockerfile.
	Dockerfile string
}

// Run writes the files.
func (a *GenerateBundle) Run(ctx context.Context) (*GeneratedBundle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	description, err := a.describeBundle()
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

	result := &GeneratedBundle{
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
		result.Manifests, result.Metadata = filepath.Join(out, bundle.FolderManifests), filepath.Join(out, bundle.FolderMetadata)
		if err := copyRegularFiles(directory, result.Manifests); err != nil {
			return nil, err
		}
	}

	if err := a.writeAnnotations(result); err != nil {
		return nil, err
	}

	return result, a.writeDockerfile(result, workDir)
}

// describeBundle returns the content of the annotations.
func (a *GenerateBundle) describeBundle() (bundle.Description, error) {
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

	return a.inferFromPackageManifest(d)
}

// inferFromPackageManifest completes the description from the tree of package manifests
// that contains the folder.
func (a *GenerateBundle) inferFromPackageManifest(d bundle.Description) (bundle.Description, error) {
	directory, err := filepath.Abs(a.Directory)
	if err != nil {
		return d, err
	}

	placement, err := bundle.FindPlacement(os.DirFS(filepath.Dir(directory)), filepath.Base(directory))
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
	// The default channel is used only if the bundle is in it.
	if d.DefaultChannel == "" && slices.Contains(strings.Split(d.Channels, ","), placement.DefaultChannel) {
		d.DefaultChannel = placement.DefaultChannel
		progress.Done("Inferred default channel: " + d.DefaultChannel)
	}

	return d, nil
}

// writeAnnotations writes annotations.yaml, or compares it with an existing one.
func (a *GenerateBundle) writeAnnotations(result *GeneratedBundle) error {
	text, err := result.Description.AnnotationsFile()
	if err != nil {
		return err
	}

	name := filepath.Join(result.Metadata, annotationsFile)
	existing, err := readFileLimited(name, maxAnnotationsBytes)
	switch {
	case a.Overwrite || errors.Is(err, fs.ErrNotExist):
		report.OrQuiet(a.Progress).Done("Writing " + annotationsFile + " in " + result.Metadata)
		return writeFileAtomically(name, bytes.NewReader(text))
	case err != nil:
		return err
	}

	differences, err := result.Description.Compare(existing)
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

// writeDockerfile writes the Dockerfile unless an existing one is kept.
func (a *GenerateBundle) writeDockerfile(result *GeneratedBundle, workDir string) error {
	report := report.OrQuiet(a.Progress)
	if _, err := os.Lstat(result.Dockerfile); err == nil && !a.Overwrite {
		report.Done("A " + bundleDockerfile + " already exists in " + workDir)
		return nil
	}

	manifests, err := filepath.Rel(workDir, result.Manifests)
	if err != nil {
		return err
	}

	metadata, err := filepath.Rel(workDir, result.Metadata)
	if err != nil {
		return err
	}

	base := a.BaseImage
	if base == "" {
		base = scratchBase
	}

	text, err := result.Description.Dockerfile(base, filepath.ToSlash(manifests), filepath.ToSlash(metadata))
	if err != nil {
		return err
	}

	report.Done("Writing " + bundleDockerfile + " in " + workDir)
	return writeFileAtomically(result.Dockerfile, bytes.NewReader(text))
}

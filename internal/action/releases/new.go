package releases

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// New builds a release without a container engine.
type New struct {
	Source
	Progress report.Progress

	// Build configures the content. Run sets its Clients and FromDir.
	Build releaseimage.Build
	// FromDir is a folder with manifests to start from. Empty means none.
	FromDir string
	// FromStreamFile is a file with an ImageStream to start from. Empty means none.
	FromStreamFile string
	// FromStream is the name of an ImageStream of the cluster to start from.
	// StreamNamespace is its namespace. Empty means none.
	FromStream, StreamNamespace string
	// Streams returns ImageStreams of the cluster as JSON.
	Streams func(ctx context.Context, namespace, name string) ([]byte, error)
	// VerificationKeys are files with OpenPGP public keys. Each of them must have signed
	// the releases that clusters of this release update to. VerificationStores are the URLs
	// of stores with these signatures. Empty means that the content of the release defines
	// the signers, if anything.
	VerificationKeys, VerificationStores []string
	// MappingFile contains a line NAME=IMAGE for each image. Empty means none.
	MappingFile string

	// ToImage is the repository and tag that the image is pushed to. Empty means that it is
	// not pushed.
	ToImage string
	// ToFile is the file that the image is written to as an OCI archive. Empty means none.
	ToFile string
	// ToDir is the folder that the payload is written to. Empty means none.
	ToDir string
	// ToSignature is the file for a statement about the image that can be signed elsewhere.
	// Empty means none.
	ToSignature string
	// DryRun builds the image without pushing or writing it.
	DryRun bool
	// Now returns the current time for the name of a release without one. Nil means
	// time.Now.
	Now func() time.Time
}

// BuiltRelease is the result of New.
type BuiltRelease struct {
	Digest  string    `json:"digest"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	// Reference is <repository>@<digest>. It is empty if the image was not pushed.
	Reference string `json:"reference,omitempty"`
}

// Run builds the release and delivers it.
func (a *New) Run(ctx context.Context) (*BuiltRelease, error) {
	if err := a.validateOptions(); err != nil {
		return nil, err
	}

	done, err := a.prepareBuild(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	composed, err := a.Build.Compose(ctx)
	if err != nil {
		return nil, &report.Error{Object: "release", Err: err}
	}
	if err := a.refuseSecondTrust(composed.Files); err != nil {
		return nil, &report.Error{Object: "release", Err: err}
	}

	dir, err := os.MkdirTemp("", "mainstay-release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the image has been delivered
	built, err := composed.Build(ctx, dir)
	for _, warning := range composed.Warnings {
		report.OrQuiet(a.Progress).Warn(warning)
	}

	if err != nil {
		return nil, &report.Error{Object: "release", Err: err}
	}

	digest, err := image.Digest(built...)
	if err != nil {
		return nil, &report.Error{Object: "release", Err: err}
	}

	result := &BuiltRelease{Digest: digest, Name: composed.Metadata.Version, Created: composed.Images.Created.UTC()}
	if a.DryRun {
		return result, nil
	}

	return result, a.deliverImage(ctx, composed, built, result)
}

// validateOptions refuses options without a destination, and a destination with a digest.
func (a *New) validateOptions() error {
	switch {
	case a.ToImage == "" && a.ToFile == "" && a.ToDir == "" && a.ToSignature == "" && !a.DryRun:
		return &report.Error{Object: "release", Err: errors.New("no destination is specified"), Advice: "name a repository with --to-image, a file with --to-file or a folder with --to-dir, or look at it with --dry-run"}
	case strings.Contains(a.ToImage, "@"):
		return &report.Error{Object: releaseObject(a.ToImage), Err: errors.New("an image is pushed to a tag, its digest follows from its content")}
	default:
		return nil
	}
}

// prepareBuild reads the input of the release into Build. The returned function releases it
// and is never nil.
func (a *New) prepareBuild(ctx context.Context) (done func(), err error) {
	done = func() {}
	a.Build.Clients = a.newRegistryClient
	if a.Build.FromRelease != "" {
		if a.Build.FromRelease, err = a.resolveReference(ctx, a.Build.FromRelease); err != nil {
			return done, err
		}
	}

	if a.MappingFile != "" {
		data, err := readUserFile(a.MappingFile)
		if err != nil {
			return done, err
		}

		mappings, err := ParseMappings(string(data))
		if err != nil {
			return done, &report.Error{Object: fmt.Sprintf("file %q", a.MappingFile), Err: err}
		}

		a.Build.Images = append(mappings, a.Build.Images...)
	}

	if err := a.readImageStream(ctx); err != nil {
		return done, err
	}

	if a.FromDir != "" {
		a.Build.FromDir, done, err = catalogs.OpenFolder(a.FromDir)
		if err != nil {
			return done, err
		}
	}

	a.setDefaultName()
	return done, a.addTrustManifest()
}

// readImageStream reads the ImageStream that the release starts from.
func (a *New) readImageStream(ctx context.Context) error {
	object := fmt.Sprintf("file %q", a.FromStreamFile)
	var data []byte
	var err error
	switch {
	case a.FromStream != "" && a.FromStreamFile != "":
		return &report.Error{Object: "release", Err: errors.New("specify an ImageStream of either the cluster or a file")}
	case a.FromStream != "":
		object = fmt.Sprintf("imagestream %q", a.StreamNamespace+"/"+a.FromStream)
		if data, err = a.Streams(ctx, a.StreamNamespace, a.FromStream); err != nil {
			return &report.Error{Object: object, Err: err, Advice: "write it into a file, and name that with --from-image-stream-file"}
		}
	case a.FromStreamFile != "":
		if data, err = readUserFile(a.FromStreamFile); err != nil {
			return err
		}
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return &report.Error{Object: object, Err: fmt.Errorf("cannot be read as YAML or JSON: %w", err)}
		}
	default:
		return nil
	}

	stream, err := release.ParseImageStream(data)
	if err != nil {
		return &report.Error{Object: object, Err: err}
	}

	a.Build.FromStream = &stream
	return nil
}

// trustManifestFile is the manifest that defines who signs the successors of a release. It
// sorts after the namespaces of the operator that reads it.
const trustManifestFile = "0000_05_release-verification_00_keys.yaml"

// addTrustManifest adds the manifest that defines who signs the successors of the release.
func (a *New) addTrustManifest() error {
	if len(a.VerificationKeys)+len(a.VerificationStores) == 0 {
		return nil
	}

	keyrings := map[string][]byte{}
	for _, file := range a.VerificationKeys {
		data, err := readUserFile(file)
		if err != nil {
			return err
		}

		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if keyrings[name] != nil {
			return &report.Error{Object: fmt.Sprintf("file %q", file), Err: fmt.Errorf("there is another keyring %q: files must have different names", name)}
		}

		keyrings[name] = data
	}

	trust, err := signature.NewTrustConfigMap(keyrings, a.VerificationStores)
	if err != nil {
		return &report.Error{Object: "release", Err: fmt.Errorf("signers of its successors: %w", err), Advice: "name keyrings with --verification-key and stores with --verification-store"}
	}

	trust.Annotations[release.AnnotationIncludePrefix+release.DefaultProfile] = "true"
	data, err := yaml.Marshal(trust)
	a.Build.Files = map[string][]byte{trustManifestFile: data}

	return err
}

// setDefaultName sets the name of a release that has none and is built from images only.
func (a *New) setDefaultName() {
	if a.Build.Name == "" && a.Build.FromDir == nil && a.Build.FromRelease == "" {
		now := time.Now
		if a.Now != nil {
			now = a.Now
		}
		a.Build.Name = "0.0.1-" + now().UTC().Format("2006-01-02-150405")
	}
}

// refuseSecondTrust refuses a second manifest that defines who signs the successors of the
// release. Only the first one would take effect.
func (a *New) refuseSecondTrust(files map[string][]byte) error {
	if a.Build.Files[trustManifestFile] == nil {
		return nil
	}

	for _, file := range slices.Sorted(maps.Keys(files)) {
		if path.Base(file) != trustManifestFile && bytes.Contains(files[file], []byte(signature.AnnotationConfigMap)) {
			return fmt.Errorf("%s already defines who signs the successors of the release: change it there or remove it", file)
		}
	}
	return nil
}

// ParseMappings parses lines NAME=IMAGE. It skips empty lines and lines that start with #.
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

// ParseMapping parses NAME=IMAGE.
func ParseMapping(text string) (releaseimage.Mapping, error) {
	name, ref, ok := strings.Cut(text, "=")
	if !ok || name == "" || ref == "" {
		return releaseimage.Mapping{}, fmt.Errorf("%q must be written as NAME=IMAGE", text)
	}
	return releaseimage.Mapping{Name: name, Image: ref}, nil
}

// deliverImage writes and pushes the image, and sets the reference of the result.
func (a *New) deliverImage(ctx context.Context, composed *releaseimage.Composed, built []*image.Built, result *BuiltRelease) error {
	progress := report.OrQuiet(a.Progress)
	if a.ToDir != "" {
		if err := composed.Write(a.ToDir); err != nil {
			return &report.Error{Object: fmt.Sprintf("directory %q", a.ToDir), Err: err}
		}
		progress.Done("payload written to " + a.ToDir)
	}

	name := cmp.Or(a.ToImage, "localhost/release:"+strings.ReplaceAll(result.Name, "+", "_"))
	if a.ToFile != "" {
		if err := catalogs.WriteArchive(a.ToFile, name, built...); err != nil {
			return err
		}
		progress.Done("image written to " + a.ToFile)
	}

	if a.ToSignature != "" {
		if err := a.writeStatement(result, name); err != nil {
			return err
		}
		progress.Done("statement written to " + a.ToSignature)
	}

	if a.ToImage == "" {
		return nil
	}

	reference, err := a.Registry.Client(a.ToImage).Push(ctx, a.ToImage, nil, built...)
	result.Reference = reference
	return err
}

// writeStatement writes the statement to be signed.
func (a *New) writeStatement(result *BuiltRelease, name string) error {
	digest, err := signature.ParseDigest(result.Digest)
	if err != nil {
		return err
	}

	data, err := signature.Statement(digest, name, result.Created)
	if err != nil {
		return err
	}
	if err := os.WriteFile(a.ToSignature, append(data, '\n'), 0o644); err != nil { //nolint:gosec // the statement is public
		return &report.Error{Object: fmt.Sprintf("file %q", a.ToSignature), Err: stripPath(err)}
	}

	return nil
}

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
	// FromStream is the name of an ImageStream of the cluster to begin with, and
	// StreamNamespace its namespace. Empty: none.
	FromStream, StreamNamespace string
	// Streams reads ImageStreams of the cluster, as JSON.
	Streams func(ctx context.Context, namespace, name string) ([]byte, error)
	// VerificationKeys are files with OpenPGP public keys, all of which must have signed what
	// clusters of the release are updated to, and VerificationStores the URLs of stores with
	// their signatures. Empty: what the release is made from says it, or nothing.
	VerificationKeys, VerificationStores []string
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
	if err := a.checkTrust(composed.Files); err != nil {
		return nil, &report.Error{Object: "release", Err: err}
	}

	dir, err := os.MkdirTemp("", "mainstay-release-")
	if err != nil {
		return nil, err
	}

	defer func() { _ = os.RemoveAll(dir) }() // The image has been delivered.
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

	made := &Made{Digest: digest, Name: composed.Metadata.Version, Created: composed.Images.Created.UTC()}
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

	if err := a.readStream(ctx); err != nil {
		return done, err
	}

	if a.FromDir != "" {
		a.Build.FromDir, done, err = catalogs.OpenFolder(a.FromDir)
		if err != nil {
			return done, err
		}
	}

	a.name()
	return done, a.addTrust()
}

// readStream reads the ImageStream that the release is made from.
func (a *New) readStream(ctx context.Context) error {
	object := fmt.Sprintf("file %q", a.FromStreamFile)
	var data []byte
	var err error
	switch {
	case a.FromStream != "" && a.FromStreamFile != "":
		return &report.Error{Object: "release", Err: errors.New("it is made from an ImageStream of the cluster or of a file: name one of them")}
	case a.FromStream != "":
		object = fmt.Sprintf("imagestream %q", a.StreamNamespace+"/"+a.FromStream)
		if data, err = a.Streams(ctx, a.StreamNamespace, a.FromStream); err != nil {
			return &report.Error{Object: object, Err: err, Advice: "write it into a file, and name that with --from-image-stream-file"}
		}
	case a.FromStreamFile != "":
		if data, err = readFile(a.FromStreamFile); err != nil {
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

// trustFile is the manifest that says who signs the successors of a release. It stands behind
// the namespaces of the operator that reads it.
const trustFile = "0000_05_release-verification_00_keys.yaml"

// addTrust adds the manifest that says who signs the successors of the release.
func (a *New) addTrust() error {
	if len(a.VerificationKeys)+len(a.VerificationStores) == 0 {
		return nil
	}

	keyrings := map[string][]byte{}
	for _, file := range a.VerificationKeys {
		data, err := readFile(file)
		if err != nil {
			return err
		}

		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if keyrings[name] != nil {
			return &report.Error{Object: fmt.Sprintf("file %q", file), Err: fmt.Errorf("there is another keyring %q: files must have different names", name)}
		}

		keyrings[name] = data
	}

	trust, err := signature.TrustOf(keyrings, a.VerificationStores)
	if err != nil {
		return &report.Error{Object: "release", Err: fmt.Errorf("who signs its successors: %w", err), Advice: "name keyrings with --verification-key and stores with --verification-store"}
	}

	trust.Annotations[release.AnnotationIncludePrefix+release.DefaultProfile] = "true"
	data, err := yaml.Marshal(trust)
	a.Build.Files = map[string][]byte{trustFile: data}

	return err
}

// name returns a release a name that has none and that is made of images alone.
func (a *New) name() {
	if a.Build.Name == "" && a.Build.FromDir == nil && a.Build.FromRelease == "" {
		now := time.Now
		if a.Now != nil {
			now = a.Now
		}
		a.Build.Name = "0.0.1-" + now().UTC().Format("2006-01-02-150405")
	}
}

// checkTrust refuses that a release says twice who signs its successors: only what comes first
// would count.
func (a *New) checkTrust(files map[string][]byte) error {
	if a.Build.Files[trustFile] == nil {
		return nil
	}

	for _, file := range slices.Sorted(maps.Keys(files)) {
		if path.Base(file) != trustFile && bytes.Contains(files[file], []byte(signature.AnnotationConfigMap)) {
			return fmt.Errorf("%s says already who signs its successors: change it there, or leave it out", file)
		}
	}
	return nil
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
func (a *New) deliver(ctx context.Context, composed *releaseimage.Composed, built []*image.Built, made *Made) error {
	progress := report.OrQuiet(a.Progress)
	if a.ToDir != "" {
		if err := composed.Write(a.ToDir); err != nil {
			return &report.Error{Object: fmt.Sprintf("directory %q", a.ToDir), Err: err}
		}
		progress.Done("payload written to " + a.ToDir)
	}

	name := cmp.Or(a.ToImage, "localhost/release:"+strings.ReplaceAll(made.Name, "+", "_"))
	if a.ToFile != "" {
		if err := catalogs.WriteArchive(a.ToFile, name, built...); err != nil {
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

	reference, err := a.Registry.Client(a.ToImage).Push(ctx, a.ToImage, nil, built...)
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

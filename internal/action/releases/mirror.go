package releases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// Mirror copies a release, with all the images that it names, to a registry or into a
// folder, or from such a folder to a registry. Digests stay the same.
type Mirror struct {
	Source
	Progress report.Progress

	// From is the release: a reference, or a version that the resolver knows. With FromDir it
	// chooses, by its version, among those of the folder, and may be empty.
	From string
	// FromDir is a folder that a release was mirrored into. Empty: From is in a registry.
	FromDir string
	// To is a repository without tag and digest. Empty: there is none.
	To string
	// ToReleaseImage is the reference that the release image gets. Empty: it lies in To.
	ToReleaseImage string
	// ToDir is a folder. Empty: there is none.
	ToDir string
	// SkipReleaseImage leaves the release image out.
	SkipReleaseImage bool
	// DryRun copies nothing.
	DryRun bool

	// Trust, unless it is empty, is asked for the signatures of the release, which go with it.
	// That there are none is a warning.
	Trust Trust
	// SignatureDir is the folder that a ConfigMap with the signatures is written to. Empty: the
	// folder "config" in ToDir, or none.
	SignatureDir string
	// Apply puts that ConfigMap into a cluster. Nil: none.
	Apply Applier
}

// Mirrored is what was copied.
type Mirrored struct {
	Version string `json:"version"`
	// Image is where the release image is now. It is empty if it was left out.
	Image string `json:"image,omitempty"`
	// Prefix is what the images now have in common: the repository, or the folder.
	Prefix string `json:"prefix"`
	// Mirrors are the repositories that images come from, and where they are now.
	Mirrors []releaseimage.Mirror `json:"mirrors,omitempty"`
	// Copies are the images, in the order in which they stand in the release.
	Copies []Copy `json:"copies"`
	// SignatureFile is the ConfigMap with the signatures. It is empty if none was written.
	SignatureFile string `json:"signatureFile,omitempty"`
}

// Copy is one image.
type Copy struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Run copies the release.
func (a *Mirror) Run(ctx context.Context) (*Mirrored, error) {
	target := releaseimage.Target{Repository: a.To, Release: a.ToReleaseImage, SkipRelease: a.SkipReleaseImage}
	if err := a.check(target); err != nil {
		return nil, err
	}

	plan, signatures, err := a.plan(ctx)
	if err != nil {
		return nil, err
	}

	mirrored := a.describe(target, plan)
	if a.DryRun {
		return mirrored, nil
	}
	if err := a.copy(ctx, target, plan); err != nil {
		return nil, &report.Error{Object: objectOf(plan.Release.Source), Err: err}
	}

	return mirrored, a.keep(ctx, plan, signatures, mirrored)
}

func (a *Mirror) check(target releaseimage.Target) error {
	var err error
	switch {
	case a.To == "" && a.ToDir == "":
		return &report.Error{Object: objectOf(a.From), Err: errors.New("nowhere to mirror it to"), Advice: "name a repository with --to or a folder with --to-dir"}
	case a.To != "" && a.ToDir != "":
		err = errors.New("it is mirrored to a registry or into a folder: name one of them")
	case a.FromDir != "" && a.ToDir != "":
		err = errors.New("what is in a folder is mirrored to a registry")
	case a.ToDir != "" && (a.SkipReleaseImage || a.ToReleaseImage != ""):
		err = errors.New("a folder always has the release image, under its tag")
	case a.To != "":
		err = target.Check()
	}

	if err != nil {
		return &report.Error{Object: objectOf(a.From), Err: err}
	}
	return nil
}

// plan says what there is to copy, and gives the signatures of the release.
func (a *Mirror) plan(ctx context.Context) (releaseimage.Plan, [][]byte, error) {
	if a.FromDir != "" {
		plan, err := releaseimage.Saved(a.FromDir, a.From)
		if err != nil {
			advice := ""
			if errors.Is(err, releaseimage.ErrSeveral) {
				advice = "name one with --from"
			}
			return plan, nil, &report.Error{Object: fmt.Sprintf("directory %q", a.FromDir), Err: err, Advice: advice}
		}
		signatures, err := a.saved(ctx, plan)
		return plan, signatures, err
	}

	opened, err := a.open(ctx, a.From)
	if err != nil {
		return releaseimage.Plan{}, nil, err
	}

	defer func() { _ = opened.Close() }() // It was only read.
	plan := releaseimage.NewPlan(opened)
	if err := plan.FindSignatures(ctx, a.clients(opened.Canonical)); err != nil {
		report.OrQuiet(a.Progress).Warn("whether signatures lie beside the release is not known: " + err.Error())
	}

	signatures, err := a.signatures(ctx, opened.Canonical)
	return plan, signatures, err
}

// signatures finds those of the release. That it is not signed stops nothing.
func (a *Mirror) signatures(ctx context.Context, canonical string) ([][]byte, error) {
	if a.Trust.IsEmpty() {
		return nil, nil
	}

	verifier, err := a.Trust.verifier(ctx, a.Source, canonical)
	if err != nil {
		return nil, err
	}

	digest := signature.DigestOf(canonical)
	if refused := verifier.Verify(ctx, digest); refused != nil {
		report.OrQuiet(a.Progress).Warn("the release is not signed as it must be: " + refused.Error())
		return nil, nil //nolint:nilerr // a release that nobody signed is mirrored without signatures
	}
	if keeper, ok := verifier.(interface{ Verified() map[string][][]byte }); ok {
		return keeper.Verified()[digest], nil
	}

	return nil, nil
}

// saved reads the signatures that were mirrored into the folder with the release.
func (a *Mirror) saved(ctx context.Context, plan releaseimage.Plan) ([][]byte, error) {
	digest, err := signature.ParseDigest(signature.DigestOf(plan.Release.Source))
	if err != nil {
		return nil, err
	}

	name := filepath.Join(a.FromDir, configDir, signatureFile(digest))
	if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}

	data, err := readFile(name)
	if err != nil {
		return nil, err
	}

	store, err := signature.StoreOf(name, data)
	if err != nil {
		return nil, err
	}

	var found [][]byte
	for made, err := range store.Signatures(ctx, digest) {
		if err != nil {
			return nil, err
		}
		found = append(found, made)
	}

	return found, nil
}

// configDir is the folder beside mirrored images for what is applied to clusters.
const configDir = "config"

// signatureFile is what a ConfigMap with signatures is called as a file.
func signatureFile(digest signature.Digest) string {
	return fmt.Sprintf("signature-%s-%.16s.json", digest.Algorithm, digest.Hex)
}

func (a *Mirror) describe(target releaseimage.Target, plan releaseimage.Plan) *Mirrored {
	mirrored := &Mirrored{Version: plan.Version, Prefix: a.To}
	to := target.Of
	if a.ToDir != "" {
		mirrored.Prefix = a.ToDir
		to = func(found releaseimage.Copied) string { return "oci:" + a.ToDir + ":" + found.Tag }
	} else {
		mirrored.Mirrors = target.Mirrors(plan)
	}

	for _, found := range plan.Images {
		mirrored.Copies = append(mirrored.Copies, Copy{From: found.Source, To: to(found)})
	}

	if !a.SkipReleaseImage {
		mirrored.Image = to(plan.Release)
		mirrored.Copies = append(mirrored.Copies, Copy{From: plan.Release.Source, To: mirrored.Image})
	}

	return mirrored
}

func (a *Mirror) copy(ctx context.Context, target releaseimage.Target, plan releaseimage.Plan) error {
	total := len(plan.Images)
	if !a.SkipReleaseImage {
		total += len(plan.Signatures) + 1
	}

	copied := 0
	progress := report.OrQuiet(a.Progress)
	done := func(found releaseimage.Copied) {
		copied++
		progress.Done(fmt.Sprintf("%d of %d images: %s", copied, total, found.Tag))
	}
	switch {
	case a.FromDir != "":
		return target.Restore(ctx, a.clients, a.FromDir, plan, done)
	case a.ToDir != "":
		return releaseimage.Save(ctx, a.clients, plan, a.ToDir, done)
	default:
		return target.Copy(ctx, func(_, to string) *image.Client { return a.clients(to) }, plan, done)
	}
}

// keep writes the signatures where a cluster finds them.
func (a *Mirror) keep(ctx context.Context, plan releaseimage.Plan, signatures [][]byte, mirrored *Mirrored) error {
	if len(signatures) == 0 {
		if a.Apply != nil {
			report.OrQuiet(a.Progress).Warn("there are no signatures to apply: say with --keyring or --trust-release who signs the release")
		}
		return nil
	}

	digest, err := signature.ParseDigest(signature.DigestOf(plan.Release.Source))
	if err != nil {
		return err
	}

	configMap := signature.ConfigMapOf(digest, signatures)
	dir := a.SignatureDir
	if dir == "" && a.ToDir != "" {
		dir = filepath.Join(a.ToDir, configDir)
	}

	if dir != "" {
		mirrored.SignatureFile = filepath.Join(dir, signatureFile(digest))
		if err := writeConfigMap(mirrored.SignatureFile, configMap); err != nil {
			return err
		}
	}

	if a.Apply == nil {
		return nil
	}
	if err := a.Apply(ctx, configMap); err != nil {
		return &report.Error{Object: fmt.Sprintf("configmap %q", configMap.Name), Err: err}
	}

	report.OrQuiet(a.Progress).Done("configmap/" + configMap.Name + " applied")
	return nil
}

func writeConfigMap(name string, configMap *corev1.ConfigMap) error {
	data, err := json.Marshal(configMap)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o755) //nolint:gosec // a signature is no secret
	}
	if err == nil {
		err = os.WriteFile(name, append(data, '\n'), 0o644) //nolint:gosec // a signature is no secret
	}
	if err != nil {
		return &report.Error{Object: fmt.Sprintf("file %q", name), Err: bare(err)}
	}

	return nil
}

// Instructions are what tells a cluster where a release is mirrored, in one of the kinds
// that there are.
func (m *Mirrored) Instructions(kind string) (string, error) {
	switch kind {
	case InstructionsNone:
		return "", nil
	case InstructionsIDMS:
		return m.instructions("imageDigestSources", "ImageDigestMirrorSet", "config.openshift.io/v1", "imageDigestMirrors")
	case InstructionsICSP:
		return m.instructions("imageContentSources", "ImageContentSourcePolicy", "operator.openshift.io/v1alpha1", "repositoryDigestMirrors")
	default:
		return "", fmt.Errorf("instructions of the kind %q are not known", kind)
	}
}

// Kinds of instructions.
const (
	InstructionsICSP = "icsp"
	InstructionsIDMS = "idms"
	InstructionsNone = "none"
)

// source is an entry of an object that names mirrors.
type source struct {
	Mirrors []string `json:"mirrors"`
	Source  string   `json:"source"`
}

func (m *Mirrored) instructions(section, kind, apiVersion, field string) (string, error) {
	if len(m.Mirrors) == 0 {
		return "", nil
	}

	var sources []source
	for _, mirror := range m.Mirrors {
		sources = append(sources, source{Mirrors: mirror.Mirrors, Source: mirror.Source})
	}

	install, err := yaml.Marshal(map[string]any{section: sources})
	if err != nil {
		return "", err
	}

	object, err := yaml.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string   `json:"metadata"`
		Spec            map[string][]source `json:"spec"`
	}{metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, map[string]string{"name": "example"}, map[string][]source{field: sources}})
	if err != nil {
		return "", err
	}

	return fmt.Sprintf(`To use the new mirrored repository to install, add the following section to the install-config.yaml:

%s
To use the new mirrored repository for upgrades, use the following to create an %s:

%s`, install, kind, object), nil
}

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

// Mirror copies a release and all its images to a registry or into a folder, or from such a
// folder to a registry. Digests do not change.
type Mirror struct {
	Source
	Progress report.Progress

	// From is the release: a reference, or a version that Resolver finds. With FromDir it
	// selects a release of the folder by version and may be empty.
	From string
	// FromDir is a folder with a mirrored release. Empty means that the release is read
	// from a registry.
	FromDir string
	// To is a repository without tag and digest. Empty means none.
	To string
	// ToReleaseImage is the reference of the mirrored release image. Empty means a tag in
	// To.
	ToReleaseImage string
	// ToDir is the output folder. Empty means none.
	ToDir string
	// SkipReleaseImage skips the release image.
	SkipReleaseImage bool
	// DryRun plans without copying.
	DryRun bool

	// Trust, unless it is empty, finds the signatures of the release, which are mirrored
	// too. Missing signatures result in a warning.
	Trust Trust
	// SignatureDir is the folder for a ConfigMap with the signatures. Empty means the
	// folder "config" in ToDir, or no file without ToDir.
	SignatureDir string
	// Apply writes that ConfigMap to a cluster. Nil means that no cluster is changed.
	Apply Applier
}

// Mirrored is the result of Mirror.
type Mirrored struct {
	Version string `json:"version"`
	// Image is the reference of the mirrored release image. It is empty if the release
	// image was skipped.
	Image string `json:"image,omitempty"`
	// Prefix is the repository or folder that contains all mirrored images.
	Prefix string `json:"prefix"`
	// Mirrors are the source repositories and their mirrors.
	Mirrors []releaseimage.Mirror `json:"mirrors,omitempty"`
	// Copies are the images in the order of the release.
	Copies []CopiedImage `json:"copies"`
	// SignatureFile is the file of the ConfigMap with the signatures. It is empty if none
	// was written.
	SignatureFile string `json:"signatureFile,omitempty"`
}

// CopiedImage is a copied image.
type CopiedImage struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Run copies the release.
func (a *Mirror) Run(ctx context.Context) (*Mirrored, error) {
	target := releaseimage.Target{Repository: a.To, Release: a.ToReleaseImage, SkipRelease: a.SkipReleaseImage}
	if err := a.validateOptions(target); err != nil {
		return nil, err
	}

	plan, signatures, err := a.planCopies(ctx)
	if err != nil {
		return nil, err
	}

	mirrored := a.describeResult(target, plan)
	if a.DryRun {
		return mirrored, nil
	}
	if err := a.copyImages(ctx, target, plan); err != nil {
		return nil, &report.Error{Object: releaseObject(plan.Release.Source), Err: err}
	}

	return mirrored, a.deliverSignatures(ctx, plan, signatures, mirrored)
}

// validateOptions refuses options that contradict each other.
func (a *Mirror) validateOptions(target releaseimage.Target) error {
	var err error
	switch {
	case a.To == "" && a.ToDir == "":
		return &report.Error{Object: releaseObject(a.From), Err: errors.New("no destination is specified"), Advice: "name a repository with --to or a folder with --to-dir"}
	case a.To != "" && a.ToDir != "":
		err = errors.New("specify either a registry or a folder as the destination")
	case a.FromDir != "" && a.ToDir != "":
		err = errors.New("a folder can be mirrored only to a registry")
	case a.ToDir != "" && (a.SkipReleaseImage || a.ToReleaseImage != ""):
		err = errors.New("a folder always contains the release image under its tag")
	case a.To != "":
		err = target.Check()
	}

	if err != nil {
		return &report.Error{Object: releaseObject(a.From), Err: err}
	}
	return nil
}

// planCopies returns the images to copy and the signatures of the release.
func (a *Mirror) planCopies(ctx context.Context) (releaseimage.Plan, [][]byte, error) {
	if a.FromDir != "" {
		plan, err := releaseimage.LoadPlan(a.FromDir, a.From)
		if err != nil {
			advice := ""
			if errors.Is(err, releaseimage.ErrSeveral) {
				advice = "name one with --from"
			}
			return plan, nil, &report.Error{Object: fmt.Sprintf("directory %q", a.FromDir), Err: err, Advice: advice}
		}
		signatures, err := a.readSavedSignatures(ctx, plan)
		return plan, signatures, err
	}

	opened, err := a.openRelease(ctx, a.From)
	if err != nil {
		return releaseimage.Plan{}, nil, err
	}
	defer func() { _ = opened.Close() }() // it was only read
	plan := releaseimage.NewPlan(opened)
	if err := plan.FindSignatures(ctx, a.newRegistryClient(opened.Canonical)); err != nil {
		report.OrQuiet(a.Progress).Warn("cannot determine whether the registry holds signatures of the release: " + err.Error())
	}

	signatures, err := a.verifiedSignatures(ctx, opened.Canonical)
	return plan, signatures, err
}

// verifiedSignatures returns the signatures of the release. It warns if they do not verify.
func (a *Mirror) verifiedSignatures(ctx context.Context, canonical string) ([][]byte, error) {
	if a.Trust.IsEmpty() {
		return nil, nil
	}

	verifier, err := a.Trust.newVerifier(ctx, a.Source, canonical)
	if err != nil {
		return nil, err
	}

	digest := signature.DigestOf(canonical)
	if refused := verifier.Verify(ctx, digest); refused != nil {
		report.OrQuiet(a.Progress).Warn("the release is not signed as required: " + refused.Error())
		return nil, nil //nolint:nilerr // an unsigned release is mirrored without signatures
	}
	if keeper, ok := verifier.(interface{ Verified() map[string][][]byte }); ok {
		return keeper.Verified()[digest], nil
	}

	return nil, nil
}

// readSavedSignatures returns the signatures that were mirrored into the folder together
// with the release.
func (a *Mirror) readSavedSignatures(ctx context.Context, plan releaseimage.Plan) ([][]byte, error) {
	digest, err := signature.ParseDigest(signature.DigestOf(plan.Release.Source))
	if err != nil {
		return nil, err
	}

	name := filepath.Join(a.FromDir, configFolder, signatureFileName(digest))
	if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}

	data, err := readUserFile(name)
	if err != nil {
		return nil, err
	}

	store, err := signature.NewBundleStore(name, data)
	if err != nil {
		return nil, err
	}

	var found [][]byte
	for data, err := range store.Signatures(ctx, digest) {
		if err != nil {
			return nil, err
		}
		found = append(found, data)
	}

	return found, nil
}

// configFolder is the folder next to mirrored images for objects to apply to clusters.
const configFolder = "config"

// signatureFileName returns the file name of a ConfigMap with signatures.
func signatureFileName(digest signature.Digest) string {
	return fmt.Sprintf("signature-%s-%.16s.json", digest.Algorithm, digest.Hex)
}

// describeResult returns the result of copying the images of the plan.
func (a *Mirror) describeResult(target releaseimage.Target, plan releaseimage.Plan) *Mirrored {
	mirrored := &Mirrored{Version: plan.Version, Prefix: a.To}
	to := target.ReferenceFor
	if a.ToDir != "" {
		mirrored.Prefix = a.ToDir
		to = func(found releaseimage.Copied) string { return "oci:" + a.ToDir + ":" + found.Tag }
	} else {
		mirrored.Mirrors = target.Mirrors(plan)
	}

	for _, found := range plan.Images {
		mirrored.Copies = append(mirrored.Copies, CopiedImage{From: found.Source, To: to(found)})
	}

	if !a.SkipReleaseImage {
		mirrored.Image = to(plan.Release)
		mirrored.Copies = append(mirrored.Copies, CopiedImage{From: plan.Release.Source, To: mirrored.Image})
	}

	return mirrored
}

// copyImages copies the images of the plan and reports each one.
func (a *Mirror) copyImages(ctx context.Context, target releaseimage.Target, plan releaseimage.Plan) error {
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
		return target.Restore(ctx, a.newRegistryClient, a.FromDir, plan, done)
	case a.ToDir != "":
		return releaseimage.Save(ctx, a.newRegistryClient, plan, a.ToDir, done)
	default:
		return target.Copy(ctx, func(_, to string) *image.Client { return a.newRegistryClient(to) }, plan, done)
	}
}

// deliverSignatures writes the ConfigMap with the signatures to a file and to the cluster,
// as requested.
func (a *Mirror) deliverSignatures(ctx context.Context, plan releaseimage.Plan, signatures [][]byte, mirrored *Mirrored) error {
	if len(signatures) == 0 {
		if a.Apply != nil {
			report.OrQuiet(a.Progress).Warn("there are no signatures to apply: specify the signers of the release with --keyring or --trust-release")
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
		dir = filepath.Join(a.ToDir, configFolder)
	}

	if dir != "" {
		mirrored.SignatureFile = filepath.Join(dir, signatureFileName(digest))
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

// writeConfigMap writes a ConfigMap as JSON.
func writeConfigMap(name string, configMap *corev1.ConfigMap) error {
	data, err := json.Marshal(configMap)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o755) //nolint:gosec // a signature is no secret
	}
	if err == nil {
		err = os.WriteFile(name, append(data, '\n'), 0o644) //nolint:gosec // a signature is no secret
	}
	if err != nil {
		return &report.Error{Object: fmt.Sprintf("file %q", name), Err: stripPath(err)}
	}

	return nil
}

// Instructions returns instructions and an object of the kind that configures a cluster to
// use the mirror. It returns an error for an unknown kind.
func (m *Mirrored) Instructions(kind string) (string, error) {
	switch kind {
	case InstructionsNone:
		return "", nil
	case InstructionsIDMS:
		return m.renderInstructions("imageDigestSources", "ImageDigestMirrorSet", "config.openshift.io/v1", "imageDigestMirrors")
	case InstructionsICSP:
		return m.renderInstructions("imageContentSources", "ImageContentSourcePolicy", "operator.openshift.io/v1alpha1", "repositoryDigestMirrors")
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

// mirrorSource is an entry of an object that configures mirrors.
type mirrorSource struct {
	Mirrors []string `json:"mirrors"`
	Source  string   `json:"source"`
}

// renderInstructions returns the instructions for objects of a kind. It returns an empty
// string if there are no mirrors.
func (m *Mirrored) renderInstructions(section, kind, apiVersion, field string) (string, error) {
	if len(m.Mirrors) == 0 {
		return "", nil
	}

	var sources []mirrorSource
	for _, mirror := range m.Mirrors {
		sources = append(sources, mirrorSource{Mirrors: mirror.Mirrors, Source: mirror.Source})
	}

	install, err := yaml.Marshal(map[string]any{section: sources})
	if err != nil {
		return "", err
	}

	object, err := yaml.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string         `json:"metadata"`
		Spec            map[string][]mirrorSource `json:"spec"`
	}{metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, map[string]string{"name": "example"}, map[string][]mirrorSource{field: sources}})
	if err != nil {
		return "", err
	}

	return fmt.Sprintf(`To use the new mirrored repository to install, add the following section to the install-config.yaml:

%s
To use the new mirrored repository for upgrades, use the following to create an %s:

%s`, install, kind, object), nil
}

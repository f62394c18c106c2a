package releases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// Applier writes an object to a cluster.
type Applier func(ctx context.Context, object *corev1.ConfigMap) error

// Sign signs a release: the signature connects its digest with a reference.
type Sign struct {
	Source
	Progress report.Progress

	// Image is the release by tag or digest.
	Image string
	// Reference is the reference in the signature. Empty means the repository with the
	// version as its tag.
	Reference string
	// Key is a file with an OpenPGP private key. Empty means no OpenPGP signature.
	Key string
	// SigstoreKey is a file with a sigstore private key. Its signature is pushed next to
	// the image. Empty means no sigstore signature.
	SigstoreKey string
	// PassphraseFile contains the passphrase of the keys on its first line. Empty means
	// that the keys are not encrypted.
	PassphraseFile string
	// Lifetime is the lifetime of the OpenPGP signature. Zero means that of the key.
	Lifetime time.Duration

	// ToStore is the folder of a signature store. Empty means none.
	ToStore string
	// ToConfigMap is the file for a ConfigMap with the signature in YAML. Empty means none.
	ToConfigMap string
	// Apply writes the ConfigMap to a cluster. Nil means that no cluster is changed.
	Apply Applier
	// Now returns the current time. Nil means time.Now.
	Now func() time.Time
}

// Signed is the result of Sign.
type Signed struct {
	Digest string `json:"digest"`
	// Reference is the reference in the signature.
	Reference string `json:"reference"`
	// Signatures are the locations of the signatures.
	Signatures []string `json:"signatures"`
}

// Run signs the release.
func (a *Sign) Run(ctx context.Context) (*Signed, error) {
	if err := a.validateOptions(); err != nil {
		return nil, err
	}

	passphrase, err := a.readPassphrase()
	if err != nil {
		return nil, err
	}

	opened, err := a.openRelease(ctx, a.Image)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }() // it was only read
	digest, err := signature.ParseDigest(opened.Digest())
	if err != nil {
		return nil, &report.Error{Object: releaseObject(a.Image), Err: err}
	}

	signed := &Signed{Digest: digest.String(), Reference: a.Reference}
	if signed.Reference == "" {
		signed.Reference = releaseimage.RepositoryOf(opened.Canonical) + ":" + opened.Payload.Metadata.Version
	}

	if a.Key != "" {
		if err := a.signWithOpenPGP(ctx, digest, passphrase, signed); err != nil {
			return nil, err
		}
	}

	if a.SigstoreKey != "" {
		if err := a.signWithSigstore(ctx, opened.Canonical, digest, passphrase, signed); err != nil {
			return nil, err
		}
	}

	return signed, nil
}

// validateOptions refuses options without a key or without a destination.
func (a *Sign) validateOptions() error {
	nowhere := a.ToStore == "" && a.ToConfigMap == "" && a.Apply == nil
	switch {
	case a.Key == "" && a.SigstoreKey == "":
		return &report.Error{Object: releaseObject(a.Image), Err: errors.New("there is no key to sign with"), Advice: "name an OpenPGP private key with --key, or a private key of sigstore with --sigstore-key"}
	case a.Key != "" && nowhere:
		return &report.Error{Object: releaseObject(a.Image), Err: errors.New("no destination for the signature is specified"), Advice: "name a folder with --to-store or a file with --to-configmap, or put it into the cluster with --apply"}
	default:
		return nil
	}
}

// readPassphrase returns the first line of the passphrase file, or nil without such a file.
func (a *Sign) readPassphrase() ([]byte, error) {
	if a.PassphraseFile == "" {
		return nil, nil
	}

	data, err := readUserFile(a.PassphraseFile)
	if err != nil {
		return nil, err
	}

	for i, c := range data {
		if c == '\n' || c == '\r' {
			return data[:i], nil
		}
	}

	return data, nil
}

// signWithOpenPGP creates an OpenPGP signature and delivers it to all destinations.
func (a *Sign) signWithOpenPGP(ctx context.Context, digest signature.Digest, passphrase []byte, signed *Signed) error {
	data, err := readUserFile(a.Key)
	if err != nil {
		return err
	}

	signer, err := signature.ParseSigner(data, passphrase)
	if err != nil {
		return &report.Error{Object: fmt.Sprintf("key %q", a.Key), Err: err}
	}

	now := time.Now
	if a.Now != nil {
		now = a.Now
	}

	signatureData, err := signer.Sign(digest, signature.SignOptions{Reference: signed.Reference, Time: now(), Lifetime: a.Lifetime})
	if err != nil {
		return &report.Error{Object: fmt.Sprintf("key %q", a.Key), Err: err}
	}

	if a.ToStore != "" {
		name, err := storeSignature(a.ToStore, digest, signatureData)
		if err != nil {
			return &report.Error{Object: fmt.Sprintf("directory %q", a.ToStore), Err: err}
		}
		signed.Signatures = append(signed.Signatures, path.Join(a.ToStore, name))
	}

	configMap := signature.ConfigMapOf(digest, [][]byte{signatureData})
	if a.ToConfigMap != "" {
		data, err := yaml.Marshal(configMap)
		if err == nil {
			err = os.WriteFile(a.ToConfigMap, data, 0o644) //nolint:gosec // a signature is no secret
		}
		if err != nil {
			return &report.Error{Object: fmt.Sprintf("file %q", a.ToConfigMap), Err: stripPath(err)}
		}
		signed.Signatures = append(signed.Signatures, a.ToConfigMap)
	}

	if a.Apply != nil {
		if err := a.Apply(ctx, configMap); err != nil {
			return &report.Error{Object: fmt.Sprintf("configmap %q", configMap.Name), Err: err}
		}
		signed.Signatures = append(signed.Signatures, "configmap/"+configMap.Name)
	}

	return nil
}

// maxStoredSignatures is the number of signatures per digest that clients read from a
// store.
const maxStoredSignatures = 9

// storeSignature writes a signature into a folder after the existing ones. It returns the
// name of the file.
func storeSignature(dir string, digest signature.Digest, signatureData []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // signatures are public
		return "", stripPath(err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", stripPath(err)
	}
	defer func() { _ = root.Close() }() // all files in it are closed
	for i := 1; i <= maxStoredSignatures; i++ {
		name := signature.PathOf(digest, i)
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return "", stripPath(err)
		}

		file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", stripPath(err)
		}

		_, err = file.Write(signatureData)
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, root.Remove(name))
		}

		return name, err
	}

	return "", fmt.Errorf("it holds %d signatures of the digest already: clients read no more", maxStoredSignatures)
}

// signWithSigstore creates a sigstore signature and pushes it next to the image.
func (a *Sign) signWithSigstore(ctx context.Context, canonical string, digest signature.Digest, passphrase []byte, signed *Signed) error {
	data, err := readUserFile(a.SigstoreKey)
	if err != nil {
		return err
	}

	key, err := signature.ParsePrivateKey(data, passphrase)
	if err != nil {
		return &report.Error{Object: fmt.Sprintf("key %q", a.SigstoreKey), Err: err}
	}

	repository := releaseimage.RepositoryOf(canonical)
	signatureData, err := key.Sign(digest, repository)
	if err != nil {
		return &report.Error{Object: fmt.Sprintf("key %q", a.SigstoreKey), Err: err}
	}

	attachments := releaseimage.Attachments{Client: a.newRegistryClient(canonical), Repository: repository}
	if err := attachments.Attach(ctx, digest, signatureData); err != nil {
		return &report.Error{Object: releaseObject(canonical), Err: err}
	}

	signed.Signatures = append(signed.Signatures, attachments.Reference(digest))
	return nil
}

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

// Applier puts an object into a cluster.
type Applier func(ctx context.Context, object *corev1.ConfigMap) error

// Sign signs a release: that its digest is that of a release by a name.
type Sign struct {
	Source
	Progress report.Progress

	// Image is the release, by tag or by digest.
	Image string
	// Reference is what the release is called in what is signed. Empty: its repository with
	// its version as the tag.
	Reference string
	// Key is a file with an OpenPGP private key. Empty: it is not signed so.
	Key string
	// SigstoreKey is a file with a private key of sigstore. Its signature goes beside the image
	// in the registry. Empty: it is not signed so.
	SigstoreKey string
	// PassphraseFile has, on its first line, what opens the keys. Empty: they are open.
	PassphraseFile string
	// Lifetime of the OpenPGP signature. Zero: as long as the key.
	Lifetime time.Duration

	// ToStore is a folder that is a store. Empty: none.
	ToStore string
	// ToConfigMap is a file for a ConfigMap with the signature, YAML. Empty: none.
	ToConfigMap string
	// Apply puts the ConfigMap into a cluster. Nil: none.
	Apply Applier
	// Now is the time. Nil: that of the machine.
	Now func() time.Time
}

// Signed is a release that was signed.
type Signed struct {
	Digest string `json:"digest"`
	// Reference that was signed.
	Reference string `json:"reference"`
	// Signatures are where they are now.
	Signatures []string `json:"signatures"`
}

// Run signs the release.
func (a *Sign) Run(ctx context.Context) (*Signed, error) {
	if err := a.check(); err != nil {
		return nil, err
	}

	passphrase, err := a.passphrase()
	if err != nil {
		return nil, err
	}

	opened, err := a.open(ctx, a.Image)
	if err != nil {
		return nil, err
	}

	defer func() { _ = opened.Close() }() // It was only read.
	digest, err := signature.ParseDigest(opened.Digest())
	if err != nil {
		return nil, &report.Error{Object: objectOf(a.Image), Err: err}
	}

	signed := &Signed{Digest: digest.String(), Reference: a.Reference}
	if signed.Reference == "" {
		signed.Reference = releaseimage.RepositoryOf(opened.Canonical) + ":" + opened.Payload.Metadata.Version
	}

	if a.Key != "" {
		if err := a.signOpenPGP(ctx, digest, passphrase, signed); err != nil {
			return nil, err
		}
	}

	if a.SigstoreKey != "" {
		if err := a.signSigstore(ctx, opened.Canonical, digest, passphrase, signed); err != nil {
			return nil, err
		}
	}

	return signed, nil
}

func (a *Sign) check() error {
	nowhere := a.ToStore == "" && a.ToConfigMap == "" && a.Apply == nil
	switch {
	case a.Key == "" && a.SigstoreKey == "":
		return &report.Error{Object: objectOf(a.Image), Err: errors.New("there is no key to sign with"), Advice: "name an OpenPGP private key with --key, or a private key of sigstore with --sigstore-key"}
	case a.Key != "" && nowhere:
		return &report.Error{Object: objectOf(a.Image), Err: errors.New("nowhere to put the signature"), Advice: "name a folder with --to-store or a file with --to-configmap, or put it into the cluster with --apply"}
	default:
		return nil
	}
}

func (a *Sign) passphrase() ([]byte, error) {
	if a.PassphraseFile == "" {
		return nil, nil
	}

	data, err := readFile(a.PassphraseFile)
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

func (a *Sign) signOpenPGP(ctx context.Context, digest signature.Digest, passphrase []byte, signed *Signed) error {
	data, err := readFile(a.Key)
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

	made, err := signer.Sign(digest, signature.SignOptions{Reference: signed.Reference, Time: now(), Lifetime: a.Lifetime})
	if err != nil {
		return &report.Error{Object: fmt.Sprintf("key %q", a.Key), Err: err}
	}

	if a.ToStore != "" {
		name, err := store(a.ToStore, digest, made)
		if err != nil {
			return &report.Error{Object: fmt.Sprintf("directory %q", a.ToStore), Err: err}
		}
		signed.Signatures = append(signed.Signatures, path.Join(a.ToStore, name))
	}

	configMap := signature.ConfigMapOf(digest, [][]byte{made})
	if a.ToConfigMap != "" {
		data, err := yaml.Marshal(configMap)
		if err == nil {
			err = os.WriteFile(a.ToConfigMap, data, 0o644) //nolint:gosec // a signature is no secret
		}
		if err != nil {
			return &report.Error{Object: fmt.Sprintf("file %q", a.ToConfigMap), Err: bare(err)}
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

// maxStored is how many signatures of a digest are looked for in a store.
const maxStored = 9

// store writes a signature into a folder, after those that are there, and gives its name.
func store(dir string, digest signature.Digest, made []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a store is for all to read
		return "", bare(err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", bare(err)
	}

	defer func() { _ = root.Close() }() // What was written is closed.
	for i := 1; i <= maxStored; i++ {
		name := signature.PathOf(digest, i)
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return "", bare(err)
		}

		file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", bare(err)
		}

		_, err = file.Write(made)
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, root.Remove(name))
		}

		return name, err
	}

	return "", fmt.Errorf("it holds %d signatures of the digest already, and no more are looked for", maxStored)
}

func (a *Sign) signSigstore(ctx context.Context, canonical string, digest signature.Digest, passphrase []byte, signed *Signed) error {
	data, err := readFile(a.SigstoreKey)
	if err != nil {
		return err
	}

	key, err := signature.ParsePrivateKey(data, passphrase)
	if err != nil {
		return &report.Error{Object: fmt.Sprintf("key %q", a.SigstoreKey), Err: err}
	}

	repository := releaseimage.RepositoryOf(canonical)
	made, err := key.Sign(digest, repository)
	if err != nil {
		return &report.Error{Object: fmt.Sprintf("key %q", a.SigstoreKey), Err: err}
	}

	beside := releaseimage.Attachments{Client: a.clients(canonical), Repository: repository}
	if err := beside.Attach(ctx, digest, made); err != nil {
		return &report.Error{Object: objectOf(canonical), Err: err}
	}

	signed.Signatures = append(signed.Signatures, beside.Reference(digest))
	return nil
}

package releases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/pgp"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// Trust configures whose signatures are accepted and where they are looked up.
type Trust struct {
	// Keyrings are files with OpenPGP public keys. A signature of each keyring is required.
	Keyrings []string
	// Keys are files with sigstore public keys. A signature of each key is required.
	Keys []string
	// Stores are the URLs of stores with OpenPGP signatures: http, https or file.
	Stores []string
	// Signatures are files with ConfigMaps that contain signatures.
	Signatures []string
	// Release is a release whose content defines the signers, such as the one that the
	// cluster runs: a reference, or a version that Resolver finds. Empty means none.
	Release string
}

// IsEmpty reports whether no signer is configured.
func (t Trust) IsEmpty() bool {
	return len(t.Keyrings) == 0 && len(t.Keys) == 0 && t.Release == ""
}

// newVerifier returns the verifier for an image. It returns an error if no signer is
// configured.
func (t Trust) newVerifier(ctx context.Context, source Source, canonical string) (signature.Verifier, error) {
	if t.IsEmpty() {
		return nil, &report.Error{
			Object: releaseObject(canonical), Err: errors.New("no trusted signer is specified"),
			Advice: "name OpenPGP public keys with --keyring, a key of sigstore with --key, or a release that says who signs with --trust-release",
		}
	}

	config, err := t.loadConfig(ctx, source)
	if err != nil {
		return nil, err
	}

	var verifiers []signature.Verifier
	if len(config.Keyrings) > 0 {
		first, err := t.openSignatureFiles()
		if err != nil {
			return nil, err
		}
		verifiers = append(verifiers, config.Verifier(first...))
	}

	if len(t.Keys) > 0 {
		keys, err := t.readPublicKeys()
		if err != nil {
			return nil, err
		}
		attachments := releaseimage.Attachments{Client: source.newRegistryClient(canonical), Repository: releaseimage.RepositoryOf(canonical)}
		verifiers = append(verifiers, signature.NewSigstore(keys, attachments))
	}

	return signature.All(verifiers...), nil
}

// loadConfig returns the keyrings and stores.
func (t Trust) loadConfig(ctx context.Context, source Source) (signature.Config, error) {
	var config signature.Config
	if t.Release != "" {
		var err error
		if config, err = t.readReleaseConfig(ctx, source); err != nil {
			return config, err
		}
	}

	for _, name := range t.Keyrings {
		data, err := readUserFile(name)
		if err != nil {
			return config, err
		}

		keyring, err := pgp.ParseKeyring(name, data)
		if err != nil {
			return config, err
		}

		config.Keyrings = append(config.Keyrings, keyring)
	}

	for _, address := range t.Stores {
		store, err := signature.OpenStore(address, nil)
		if err != nil {
			return config, err
		}
		config.Stores = append(config.Stores, store)
	}

	return config, nil
}

// readReleaseConfig reads the signers and stores from the content of Release.
func (t Trust) readReleaseConfig(ctx context.Context, source Source) (signature.Config, error) {
	opened, err := source.openRelease(ctx, t.Release)
	if err != nil {
		return signature.Config{}, err
	}
	defer func() { _ = opened.Close() }() // it was only read
	for _, m := range opened.Payload.Manifests {
		if _, ok := m.Object.GetAnnotations()[signature.AnnotationConfigMap]; !ok || m.Object.GetKind() != "ConfigMap" {
			continue
		}

		var config signature.Config
		data, err := configMapData(m)
		if err == nil {
			config, err = signature.ParseConfig(data, nil)
		}
		if err != nil {
			err = &report.Error{Object: releaseObject(t.Release), Err: fmt.Errorf("%s: %w", m.Key(), err)}
		}

		return config, err
	}

	return signature.Config{}, &report.Error{
		Object: releaseObject(t.Release), Err: fmt.Errorf("none of its manifests is a ConfigMap with the annotation %s, which would say who signs", signature.AnnotationConfigMap),
	}
}

// configMapData returns the data of a ConfigMap manifest. It includes binary data, because
// keyrings may be binary.
func configMapData(m release.Manifest) (map[string]string, error) {
	var configMap corev1.ConfigMap
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object.Object, &configMap); err != nil {
		return nil, err
	}

	data := map[string]string{}
	maps.Copy(data, configMap.Data)
	for key, value := range configMap.BinaryData {
		data[key] = string(value)
	}

	return data, nil
}

// openSignatureFiles returns the stores of the files with signatures.
func (t Trust) openSignatureFiles() ([]signature.Store, error) {
	var stores []signature.Store
	for _, name := range t.Signatures {
		data, err := readUserFile(name)
		if err != nil {
			return nil, err
		}

		store, err := signature.NewBundleStore(name, data)
		if err != nil {
			return nil, &report.Error{Object: fmt.Sprintf("file %q", name), Err: errors.New(strings.TrimPrefix(err.Error(), name+": "))}
		}

		stores = append(stores, store)
	}

	return stores, nil
}

// readPublicKeys reads the sigstore public keys.
func (t Trust) readPublicKeys() ([]signature.PublicKey, error) {
	var keys []signature.PublicKey
	for _, name := range t.Keys {
		data, err := readUserFile(name)
		if err != nil {
			return nil, err
		}

		key, err := signature.ParsePublicKey(filepath.Base(name), data)
		if err != nil {
			return nil, err
		}

		keys = append(keys, key)
	}

	return keys, nil
}

// Verify verifies the signatures of a release.
type Verify struct {
	Source
	Trust Trust
	// Image is the release: a reference by digest, or a version that Resolver finds.
	Image string
}

// Run returns the digest of the release if it has the required signatures. The error lists
// what is missing and what was found instead.
func (a *Verify) Run(ctx context.Context) (string, error) {
	ref, err := a.resolveReference(ctx, a.Image)
	if err != nil {
		return "", err
	}

	digest := signature.DigestOf(ref)
	verifier, err := a.Trust.newVerifier(ctx, a.Source, ref)
	if err != nil {
		return "", err
	}
	if err := verifier.Verify(ctx, digest); err != nil {
		return "", &report.Error{Object: releaseObject(ref), Err: &report.Reworded{Text: signature.Detail(err), Cause: err}}
	}

	return digest, nil
}

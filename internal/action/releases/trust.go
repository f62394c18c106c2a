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
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// Trust says whose signatures are believed, and where they are looked for.
type Trust struct {
	// Keyrings are files with OpenPGP public keys. Each must have signed.
	Keyrings []string
	// Keys are files with public keys of sigstore. Each must have signed.
	Keys []string
	// Stores are URLs of stores for OpenPGP signatures: http, https or file.
	Stores []string
	// Signatures are files with ConfigMaps that hold signatures.
	Signatures []string
	// Release is a release that says who signs releases, such as the one that the cluster
	// runs: a reference, or a version that the resolver knows. Empty: none is asked.
	Release string
}

// IsEmpty reports whether nobody is trusted.
func (t Trust) IsEmpty() bool {
	return len(t.Keyrings) == 0 && len(t.Keys) == 0 && t.Release == ""
}

// verifier makes the verifier for an image.
func (t Trust) verifier(ctx context.Context, source Source, canonical string) (signature.Verifier, error) {
	if t.IsEmpty() {
		return nil, &report.Error{
			Object: objectOf(canonical), Err: errors.New("nobody was named whose signature counts"),
			Advice: "name OpenPGP public keys with --keyring, a key of sigstore with --key, or a release that says who signs with --trust-release",
		}
	}

	config, err := t.config(ctx, source)
	if err != nil {
		return nil, err
	}

	var verifiers []signature.Verifier
	if len(config.Keyrings) > 0 {
		first, err := t.bundles()
		if err != nil {
			return nil, err
		}
		verifiers = append(verifiers, config.Verifier(first...))
	}

	if len(t.Keys) > 0 {
		keys, err := t.keys()
		if err != nil {
			return nil, err
		}
		beside := releaseimage.Attachments{Client: source.clients(canonical), Repository: releaseimage.RepositoryOf(canonical)}
		verifiers = append(verifiers, signature.NewSigstore(keys, beside))
	}

	return signature.All(verifiers...), nil
}

// config returns the keyrings and stores.
func (t Trust) config(ctx context.Context, source Source) (signature.Config, error) {
	var config signature.Config
	if t.Release != "" {
		var err error
		if config, err = t.configOf(ctx, source); err != nil {
			return config, err
		}
	}

	for _, name := range t.Keyrings {
		data, err := readFile(name)
		if err != nil {
			return config, err
		}

		keyring, err := signature.ParseKeyring(name, data)
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

// configOf reads who signs releases from a release.
func (t Trust) configOf(ctx context.Context, source Source) (signature.Config, error) {
	opened, err := source.open(ctx, t.Release)
	if err != nil {
		return signature.Config{}, err
	}

	defer func() { _ = opened.Close() }() // It was only read.
	for _, m := range opened.Payload.Manifests {
		if _, ok := m.Object.GetAnnotations()[signature.AnnotationConfigMap]; !ok || m.Object.GetKind() != "ConfigMap" {
			continue
		}

		var config signature.Config
		data, err := dataOf(m)
		if err == nil {
			config, err = signature.ParseConfig(data, nil)
		}
		if err != nil {
			err = &report.Error{Object: objectOf(t.Release), Err: fmt.Errorf("%s: %w", m.Key(), err)}
		}

		return config, err
	}

	return signature.Config{}, &report.Error{
		Object: objectOf(t.Release), Err: fmt.Errorf("none of its manifests is a ConfigMap with the annotation %s, which would say who signs", signature.AnnotationConfigMap),
	}
}

// dataOf returns the data of a ConfigMap; keyrings that are not armored are binary.
func dataOf(m release.Manifest) (map[string]string, error) {
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

// bundles returns the stores of the files.
func (t Trust) bundles() ([]signature.Store, error) {
	var stores []signature.Store
	for _, name := range t.Signatures {
		data, err := readFile(name)
		if err != nil {
			return nil, err
		}

		store, err := signature.StoreOf(name, data)
		if err != nil {
			return nil, &report.Error{Object: fmt.Sprintf("file %q", name), Err: errors.New(strings.TrimPrefix(err.Error(), name+": "))}
		}

		stores = append(stores, store)
	}

	return stores, nil
}

func (t Trust) keys() ([]signature.PublicKey, error) {
	var keys []signature.PublicKey
	for _, name := range t.Keys {
		data, err := readFile(name)
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

// Verify reports whether a release is signed.
type Verify struct {
	Source
	Trust Trust
	// Image is the release: a reference by digest, or a version that the resolver knows.
	Image string
}

// Run returns the digest of the release when it is signed as it must be. Its error tells what
// is missing and what was found instead.
func (a *Verify) Run(ctx context.Context) (string, error) {
	ref, err := a.locate(ctx, a.Image)
	if err != nil {
		return "", err
	}

	digest := signature.DigestOf(ref)
	verifier, err := a.Trust.verifier(ctx, a.Source, ref)
	if err != nil {
		return "", err
	}
	if err := verifier.Verify(ctx, digest); err != nil {
		return "", &report.Error{Object: objectOf(ref), Err: &report.Reworded{Text: signature.Detail(err), Cause: err}}
	}

	return digest, nil
}

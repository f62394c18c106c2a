//go:build containers_image_openpgp

package image

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"go.podman.io/image/v5/types"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/pgp"
)

// requireStrongSignature returns an error unless an image meets a requirement of type signedBy
// by a signature that package pgp accepts too. The library also accepts signatures with SHA-1 and
// by short RSA keys.
func requireStrongSignature(ctx context.Context, rule policyRequirement, image types.UnparsedImage) error {
	keyrings, err := rule.readKeyrings()
	if err != nil {
		return kindErrorf(KindUntrusted, "read the keys of the signature policy: %w", err)
	}

	signatures, err := image.Signatures(ctx)
	if err != nil {
		return fmt.Errorf("read its signatures: %w", err)
	}

	strong := strongSignatures{UnparsedImage: image}
	var refused []string
	for _, data := range signatures {
		reasons := findWeaknesses(keyrings, data)
		if len(reasons) == 0 {
			strong.signatures = append(strong.signatures, data)
		}
		refused = append(refused, reasons...)
	}

	if len(strong.signatures) == 0 {
		return kindErrorf(KindUntrusted, "the signature policy does not accept it: %s", excerpt.Line(strings.Join(refused, "; "), maxRefusalBytes))
	}
	return evaluatePolicy(ctx, fmt.Appendf(nil, `{"default":[%s]}`, rule.raw), strong)
}

// maxRefusalBytes is the maximum length of the reasons why signatures are refused.
const maxRefusalBytes = 1024

// findWeaknesses returns why a signature counts for none of the keyrings. The list is empty if it
// counts for one.
func findWeaknesses(keyrings []pgp.Keyring, data []byte) []string {
	var reasons []string
	for _, keyring := range keyrings {
		_, err := keyring.OpenMessage(data, time.Now())
		if err == nil {
			return nil
		}
		reasons = append(reasons, err.Error())
	}

	return reasons
}

// strongSignatures is an image with some of its simple signatures. It has no other signatures.
type strongSignatures struct {
	types.UnparsedImage

	signatures [][]byte
}

// Signatures implements types.UnparsedImage.
func (s strongSignatures) Signatures(context.Context) ([][]byte, error) { return s.signatures, nil }

// readKeyrings reads the keys of a requirement of type signedBy.
func (r policyRequirement) readKeyrings() ([]pgp.Keyring, error) {
	var rule struct {
		KeyPath  string   `json:"keyPath"`
		KeyPaths []string `json:"keyPaths"`
		KeyData  []byte   `json:"keyData"`
	}
	if err := json.Unmarshal(r.raw, &rule); err != nil {
		return nil, err
	}

	if len(rule.KeyData) > 0 {
		keyring, err := pgp.ParseKeyring("keyData", rule.KeyData)
		return []pgp.Keyring{keyring}, err
	}
	if rule.KeyPath != "" {
		rule.KeyPaths = append(rule.KeyPaths, rule.KeyPath)
	}

	var keyrings []pgp.Keyring
	for _, path := range rule.KeyPaths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}

		keyring, err := pgp.ParseKeyring(path, data)
		if err != nil {
			return nil, err
		}
		keyrings = append(keyrings, keyring)
	}

	return keyrings, nil
}

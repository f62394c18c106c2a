//go:build !containers_image_openpgp

package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
)

// validatePolicy returns an error if data is not a valid policy. Unknown fields are errors,
// because a misspelt key must not weaken the policy.
func validatePolicy(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var policy policyFile
	if err := decoder.Decode(&policy); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the JSON object")
	}

	return nil
}

// verifySignatures always returns an error, because this build cannot verify signatures.
func (signaturePolicy) verifySignatures(_ context.Context, _ []byte, rules []policyRequirement, _ verificationSubject) error {
	return kindErrorf(KindUntrusted, "the signature policy asks for %q, which this build cannot verify; use one built with the tag containers_image_openpgp", rules[0].kind)
}

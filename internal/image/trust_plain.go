//go:build !containers_image_openpgp

package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
)

// checkPolicy refuses what is no policy. A misspelt key must not open a door.
func checkPolicy(data []byte) error {
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

// verifySignatures refuses: this build cannot read signatures.
func (c *Client) verifySignatures(_ context.Context, _ []byte, rule requirement, _ subject) error {
	return faultf(KindUntrusted, "the signature policy asks for %q, which this build cannot verify; use one built with the tag containers_image_openpgp", rule)
}

//go:build !containers_image_openpgp

package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"go.podman.io/image/v5/types"
)

// policyFile is what this build reads of a policy.json.
type policyFile struct {
	Default    []requirement                       `json:"default"`
	Transports map[string]map[string][]requirement `json:"transports"`
}

// requirement is the type of a rule for images of one scope. All rules of a scope must hold.
type requirement string

// UnmarshalJSON takes the type and leaves the other fields, which only signatures need.
func (r *requirement) UnmarshalJSON(data []byte) error {
	var rule struct {
		Type string `json:"type"`
	}
	err := json.Unmarshal(data, &rule)
	*r = requirement(rule.Type)
	return err
}

// verifyPolicy knows the rules that accept or reject without looking at signatures, and
// refuses where another one applies.
func verifyPolicy(_ context.Context, data []byte, img types.UnparsedImage) error {
	var policy policyFile
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&policy); err != nil {
		return faultf(KindUntrusted, "read the signature policy: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return faultf(KindUntrusted, "read the signature policy: data after the JSON object")
	}
	rules := policy.rulesFor(img.Reference())
	if len(rules) == 0 {
		return faultf(KindUntrusted, "the signature policy has no rule for it, and no default")
	}
	for _, rule := range rules {
		switch rule {
		case "insecureAcceptAnything":
		case "reject":
			return faultf(KindUntrusted, "the signature policy does not accept it: running it is rejected by policy")
		default:
			return faultf(KindUntrusted, "the signature policy asks for %q, which this build cannot verify; use one built with the tag containers_image_openpgp", rule)
		}
	}
	return nil
}

// rulesFor finds the rules of the narrowest scope that holds the image: the reference, the
// repository, its parents, the host, *.domain, the transport, the default.
func (p policyFile) rulesFor(ref types.ImageReference) []requirement {
	scopes := p.Transports[ref.Transport().Name()]
	candidates := append([]string{ref.PolicyConfigurationIdentity()}, ref.PolicyConfigurationNamespaces()...)
	for _, scope := range append(candidates, "") {
		if rules, ok := scopes[scope]; ok {
			return rules
		}
	}
	return p.Default
}

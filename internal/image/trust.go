package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.podman.io/storage/pkg/configfile"
)

// maxPolicyBytes bounds a policy.json. A file with an inline key of 4 KiB for each of 200
// registries has less than 1 MiB.
const maxPolicyBytes = 4 << 20

// verificationSubject is the image to check against the signature policy. As in other
// container tools, it is the image of one platform, because signatures are made for that.
type verificationSubject struct {
	named imageReference
	// instance is the platform that was selected from an index. It is empty when there is
	// no index.
	instance digest.Digest
	// manifest is the manifest of the image.
	manifest []byte
}

// signaturePolicy is the signature policy of the machine.
type signaturePolicy struct{ registries *connector }

// checkImage returns an error if the policy does not accept an image.
func (p signaturePolicy) checkImage(ctx context.Context, image verificationSubject) error {
	data, err := p.readPolicyFile()
	if err != nil {
		return kindErrorf(KindUntrusted, "read the signature policy: %w", err)
	}
	if data == nil {
		return nil
	}
	if err := validatePolicy(data); err != nil {
		return kindErrorf(KindUntrusted, "read the signature policy: %w", err)
	}

	var policy policyFile
	if err := json.Unmarshal(data, &policy); err != nil {
		return kindErrorf(KindUntrusted, "read the signature policy: %w", err)
	}

	rules := policy.findPolicyRules(image.named)
	if len(rules) == 0 {
		return kindErrorf(KindUntrusted, "the signature policy has no rule for it, and no default")
	}

	var signed []policyRequirement
	for _, rule := range rules {
		switch rule.kind {
		case "insecureAcceptAnything":
		case "reject":
			return kindErrorf(KindUntrusted, "the signature policy does not accept it: running it is rejected by policy")
		default:
			signed = append(signed, rule)
		}
	}

	if len(signed) == 0 {
		return nil
	}

	return p.verifySignatures(ctx, data, signed, image)
}

// policyFile is the part of a policy.json that determines whether signatures are required.
type policyFile struct {
	Default    []policyRequirement                       `json:"default"`
	Transports map[string]map[string][]policyRequirement `json:"transports"`
}

// policyRequirement is a requirement for images of one scope. An image must meet all
// requirements of a scope.
type policyRequirement struct {
	// kind is the field type of the requirement.
	kind string
	// raw is the requirement as written. Its other fields are only needed to verify signatures.
	raw json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *policyRequirement) UnmarshalJSON(data []byte) error {
	var rule struct {
		Type string `json:"type"`
	}
	err := json.Unmarshal(data, &rule)
	*r = policyRequirement{kind: rule.Type, raw: bytes.Clone(data)}
	return err
}

// findPolicyRules returns the rules of the narrowest scope that contains the image.
func (p policyFile) findPolicyRules(n imageReference) []policyRequirement {
	scopes := p.Transports["docker"]
	for _, scope := range policyScopes(n) {
		if rules, ok := scopes[scope]; ok {
			return rules
		}
	}
	return p.Default
}

// policyScopes returns the scopes of a policy that contain an image, the narrowest first:
// the reference, the repository, its parents, the host, *.domain, the transport.
func policyScopes(n imageReference) []string {
	scopes := []string{n.String()}
	scope := n.repository()
	for {
		scopes = append(scopes, scope)
		slash := strings.LastIndex(scope, "/")
		if slash < 0 {
			break
		}
		scope = scope[:slash]
	}

	host, _, _ := strings.Cut(scope, ":")
	if strings.HasPrefix(scope, "[") {
		return append(scopes, "")
	}

	for _, rest, ok := strings.Cut(host, "."); ok; _, rest, ok = strings.Cut(rest, ".") {
		scopes = append(scopes, "*."+rest)
	}

	return append(scopes, "")
}

// readPolicyFile returns the bytes of the policy. It is nil when none is configured.
func (p signaturePolicy) readPolicyFile() ([]byte, error) {
	if p.registries.opts.PolicyFile != "" {
		file, err := os.Open(p.registries.opts.PolicyFile)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return readAtMost(file, maxPolicyBytes)
	}

	places := &configfile.File{
		Name: "policy", Extension: "json", DoNotLoadDropInFiles: true, EnvironmentName: "CONTAINERS_POLICY_JSON",
	}
	for item, err := range configfile.Read(places) {
		if err != nil {
			return nil, err
		}
		return readAtMost(item.Reader, maxPolicyBytes)
	}

	return nil, nil
}

var errTooLarge = errors.New("too large")

// readAtMost reads r to its end. It returns errTooLarge if there are more than limit bytes.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, errTooLarge
	}
	return data, err
}

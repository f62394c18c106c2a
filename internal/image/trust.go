package image

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.podman.io/storage/pkg/configfile"
)

// maxPolicy bounds a policy.json: one with a key of 4 KiB inline for each of 200
// registries has less than 1 MiB.
const maxPolicy = 4 << 20

// subject is the image whose trust is in question: one platform's, as with every
// container tool, for that is what signatures are looked for.
type subject struct {
	named name
	// instance is the platform that was chosen from several, empty when there is one only.
	instance digest.Digest
	// manifest of the image.
	manifest []byte
}

// verify refuses an image that the machine's signature policy does not accept.
func (c *Client) verify(ctx context.Context, image subject) error {
	data, err := c.readPolicy()
	if err != nil {
		return faultf(KindUntrusted, "read the signature policy: %w", err)
	}
	if data == nil {
		return nil
	}
	if err := checkPolicy(data); err != nil {
		return faultf(KindUntrusted, "read the signature policy: %w", err)
	}

	var policy policyFile
	if err := json.Unmarshal(data, &policy); err != nil {
		return faultf(KindUntrusted, "read the signature policy: %w", err)
	}

	rules := policy.rulesFor(image.named)
	if len(rules) == 0 {
		return faultf(KindUntrusted, "the signature policy has no rule for it, and no default")
	}

	signed := requirement("")
	for _, rule := range rules {
		switch rule {
		case "insecureAcceptAnything":
		case "reject":
			return faultf(KindUntrusted, "the signature policy does not accept it: running it is rejected by policy")
		default:
			signed = rule
		}
	}

	if signed == "" {
		return nil
	}

	return c.verifySignatures(ctx, data, signed, image)
}

// policyFile is what is read of a policy.json to know whether signatures are asked for.
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

// rulesFor finds the rules of the narrowest scope that holds the image.
func (p policyFile) rulesFor(n name) []requirement {
	scopes := p.Transports["docker"]
	for _, scope := range scopesOf(n) {
		if rules, ok := scopes[scope]; ok {
			return rules
		}
	}
	return p.Default
}

// scopesOf returns the scopes of a policy that hold an image, the narrowest first: the
// reference, the repository, its parents, the host, *.domain, the transport.
func scopesOf(n name) []string {
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

// readPolicy returns the bytes of the policy, nil when none is configured.
func (c *Client) readPolicy() ([]byte, error) {
	if c.opts.PolicyFile != "" {
		file, err := os.Open(c.opts.PolicyFile)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return readAtMost(file, maxPolicy)
	}

	places := &configfile.File{
		Name: "policy", Extension: "json", DoNotLoadDropInFiles: true, EnvironmentName: "CONTAINERS_POLICY_JSON",
	}
	for item, err := range configfile.Read(places) {
		if err != nil {
			return nil, err
		}
		return readAtMost(item.Reader, maxPolicy)
	}

	return nil, nil
}

var errTooLarge = errors.New("too large")

func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, errTooLarge
	}
	return data, err
}

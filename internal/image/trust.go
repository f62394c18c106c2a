package image

import (
	"context"
	"errors"
	"io"
	"os"

	"go.podman.io/image/v5/types"
	"go.podman.io/storage/pkg/configfile"
)

// maxPolicy bounds a policy.json: one with a key of 4 KiB inline for each of 200
// registries has less than 1 MiB.
const maxPolicy = 4 << 20

// verify refuses an image that the machine's signature policy does not accept. The image
// is one platform's: as with every container tool, that is what signatures are looked for.
func (c *Client) verify(ctx context.Context, img types.UnparsedImage) error {
	policy, err := c.readPolicy()
	if err != nil {
		return faultf(KindUntrusted, "read the signature policy: %w", err)
	}
	if policy == nil {
		return nil
	}
	return verifyPolicy(ctx, policy, img)
}

// readPolicy gives the bytes of the policy, nil when none is configured.
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

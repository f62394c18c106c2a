package image

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.podman.io/image/v5/pkg/docker/config"
	"go.podman.io/image/v5/types"

	"github.com/mainstay-dev/mainstay/internal/image/registry"
)

// credentials are logins that the caller passed as bytes, such as a pull secret.
type credentials struct {
	auths   map[string]authEntry
	secrets []string // what must never appear in an error
}

// authEntry is one entry of a Docker config.json.
type authEntry struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
}

// maxCredentialsBytes is the maximum size of a Kubernetes Secret.
const maxCredentialsBytes = 1 << 20

// WithCredentials returns a client that also uses the logins of Docker configs, in the
// format of Secrets of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg. If
// two configs have the same key, the earlier config wins. All of them take precedence over
// AuthFile. The home directory's logins are not used. Credential helpers that a config
// names are never run.
func (c *Client) WithCredentials(dockerConfigs ...[]byte) (*Client, error) {
	all := &credentials{auths: map[string]authEntry{}}
	for _, config := range slices.Backward(dockerConfigs) {
		creds, err := parseCredentials(config)
		if err != nil {
			return nil, wrapOperationError("read credentials", "", err)
		}
		maps.Copy(all.auths, creds.auths)
		all.secrets = append(all.secrets, creds.secrets...)
	}

	derived := *c
	derived.registries.creds = all
	return &derived, nil
}

// WithOnlyCredentials returns a client as WithCredentials does, which does not use AuthFile.
func (c *Client) WithOnlyCredentials(dockerConfigs ...[]byte) (*Client, error) {
	derived, err := c.WithCredentials(dockerConfigs...)
	if err != nil {
		return nil, err
	}
	derived.registries.opts.AuthFile = ""
	return derived, nil
}

// findRegistryLogin returns the login for a repository. The longest matching part of its
// name wins.
func (c *connector) findRegistryLogin(sys *types.SystemContext, n imageReference) (registry.Login, error) {
	if c.creds == nil {
		found, err := config.GetCredentials(sys, n.repository())
		if err != nil {
			return registry.Login{}, kindErrorf(KindDenied, "find the login for %s: %w", n.domain, err)
		}
		return registry.Login{Username: found.Username, Password: found.Password, IdentityToken: found.IdentityToken}, nil
	}

	auths, err := c.creds.mergeAuthFile(c.opts.AuthFile)
	if err != nil {
		return registry.Login{}, err
	}
	return findAuthEntry(auths, n.repository()).registryLogin(), nil
}

// findAuthEntry returns the login for a repository. It looks up the repository and then
// each parent of it. At last it looks for the registry in the former format of docker
// login, a URL such as https://host/v1/.
func findAuthEntry(auths map[string]authEntry, repository string) authEntry {
	for key := repository; ; {
		if found, ok := auths[key]; ok {
			return found
		}
		slash := strings.LastIndex(key, "/")
		if slash < 0 {
			break
		}
		key = key[:slash]
	}

	host, _, _ := strings.Cut(repository, "/")
	for _, key := range slices.Sorted(maps.Keys(auths)) {
		if registryOfAuthKey(key) == registryOfAuthKey(host) {
			return auths[key]
		}
	}
	return authEntry{}
}

// registryOfAuthKey returns the registry of a key. It is empty for the key of a repository.
func registryOfAuthKey(key string) string {
	bare := strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, path, _ := strings.Cut(bare, "/")
	if bare == key && path != "" {
		return ""
	}

	switch host {
	case "docker.io", "registry-1.docker.io":
		return "index.docker.io"
	}

	return host
}

// parseCredentials parses a Docker config in its current or its legacy format.
func parseCredentials(data []byte) (*credentials, error) {
	if len(data) > maxCredentialsBytes {
		return nil, kindErrorf(KindInvalid, "the docker config has %d bytes, at most %d are read", len(data), maxCredentialsBytes)
	}

	var config struct {
		Auths map[string]authEntry `json:"auths"`
	}
	// The parser's message may quote the input, so it is not passed on.
	if json.Unmarshal(data, &config) != nil {
		return nil, kindErrorf(KindInvalid, `the docker config is not JSON of the form {"auths":{"registry":{"auth":"…"}}}`)
	}
	// The legacy form is the map alone. A file with other settings only has no logins.
	if config.Auths == nil && json.Unmarshal(data, &config.Auths) != nil {
		config.Auths = nil
	}

	creds := &credentials{auths: make(map[string]authEntry, len(config.Auths))}
	for key, entry := range config.Auths {
		normal, err := entry.normalizeEntry()
		if err != nil {
			return nil, kindErrorf(KindInvalid, "the docker config's login for %q: %w", redactText(key, nil), err)
		}
		creds.auths[key] = normal
		creds.addRedactedSecrets(entry.Password, normal.Auth, normal.IdentityToken, normal.registryLogin().Password)
	}

	return creds, nil
}

// normalizeEntry returns the entry with user and password in the auth field only, the form
// that every tool reads.
func (l authEntry) normalizeEntry() (authEntry, error) {
	if l.Auth == "" && l.Username != "" {
		l.Auth = base64.StdEncoding.EncodeToString([]byte(l.Username + ":" + l.Password))
	}

	if l.Auth != "" {
		plain, err := base64.StdEncoding.DecodeString(l.Auth)
		if err != nil {
			return authEntry{}, errors.New(`"auth" is not base64`)
		}
		if !strings.Contains(string(plain), ":") {
			return authEntry{}, errors.New(`"auth" is not the base64 form of user:password`)
		}
	}

	return authEntry{Auth: l.Auth, IdentityToken: l.IdentityToken}, nil
}

// registryLogin returns the login of a normalized entry.
func (l authEntry) registryLogin() registry.Login {
	parts := registry.Login{IdentityToken: l.IdentityToken}
	if plain, err := base64.StdEncoding.DecodeString(l.Auth); err == nil {
		parts.Username, parts.Password, _ = strings.Cut(string(plain), ":")
		parts.Password = strings.TrimRight(parts.Password, "\x00") // as docker's own reader does
	}
	return parts
}

func (c *credentials) addRedactedSecrets(secrets ...string) {
	for _, s := range secrets {
		// Striking very short strings would garble messages and hide little.
		if len(s) >= 4 {
			c.secrets = append(c.secrets, s)
		}
	}
}

// mergeAuthFile returns the logins together with those of a file, which may be missing. The
// credentials take precedence.
func (c *credentials) mergeAuthFile(file string) (map[string]authEntry, error) {
	auths := map[string]authEntry{}
	if file != "" {
		fromFile, err := readAuthFile(file)
		if err != nil {
			return nil, err
		}
		maps.Copy(auths, fromFile)
	}

	maps.Copy(auths, c.auths)
	return auths, nil
}

// writeAuthFile writes the credentials into dir for the library. Only this user can read
// the file.
func (c *credentials) writeAuthFile(sys *types.SystemContext, dir string) error {
	if c == nil {
		return nil
	}

	auths, err := c.mergeAuthFile(sys.AuthFilePath)
	if err != nil {
		return err
	}

	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		return fmt.Errorf("encode credentials: %w", err)
	}

	sys.AuthFilePath = filepath.Join(dir, "config.json")
	if err := os.WriteFile(sys.AuthFilePath, data, 0o600); err != nil {
		return fmt.Errorf("store credentials for the signature reader (TMPDIR must be writable): %w", err)
	}

	return nil
}

// readAuthFile returns the logins of a file, none when the file is missing.
func readAuthFile(file string) (map[string]authEntry, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, kindErrorf(KindDenied, "read the auth file: %w", err)
	}

	creds, err := parseCredentials(data)
	if err != nil {
		return nil, kindErrorf(KindDenied, "read the auth file %s: %w", file, err)
	}

	return creds.auths, nil
}

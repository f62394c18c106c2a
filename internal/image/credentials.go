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

// credentials are logins that were given as bytes, such as a pull secret.
type credentials struct {
	auths   map[string]login
	secrets []string // what must never appear in an error
}

// login is one entry of a Docker config.json.
type login struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
}

// maxCredentials is the size of a Kubernetes Secret.
const maxCredentials = 1 << 20

// WithCredentials returns a client that also uses the logins of Docker configs, as they
// stand in Secrets of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg. Of
// two logins for the same key the one of the earlier config counts; both beat the one of
// AuthFile. The home directory's are not used. Only logins are read: helper programs that
// a config names are never run.
func (c *Client) WithCredentials(dockerConfigs ...[]byte) (*Client, error) {
	all := &credentials{auths: map[string]login{}}
	for _, config := range slices.Backward(dockerConfigs) {
		creds, err := parseCredentials(config)
		if err != nil {
			return nil, fail("read credentials", "", err)
		}
		maps.Copy(all.auths, creds.auths)
		all.secrets = append(all.secrets, creds.secrets...)
	}

	return &Client{opts: c.opts, creds: all, shared: c.shared, transfers: c.transfers}, nil
}

// login finds the login for a repository: that of the longest part of its name that has
// one.
func (c *Client) login(sys *types.SystemContext, n name) (registry.Login, error) {
	if c.creds == nil {
		found, err := config.GetCredentials(sys, n.repository())
		if err != nil {
			return registry.Login{}, faultf(KindDenied, "find the login for %s: %w", n.domain, err)
		}
		return registry.Login{Username: found.Username, Password: found.Password, IdentityToken: found.IdentityToken}, nil
	}

	auths, err := c.creds.with(c.opts.AuthFile)
	if err != nil {
		return registry.Login{}, err
	}
	return find(auths, n.repository()).parts(), nil
}

// find returns the login for a repository: by its name, by each longer part of it, and by
// the registry as docker login once wrote it, an address such as https://host/v1/.
func find(auths map[string]login, repository string) login {
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
		if hostOfKey(key) == hostOfKey(host) {
			return auths[key]
		}
	}
	return login{}
}

// hostOfKey returns the registry of a key that is one, empty for the key of a repository.
func hostOfKey(key string) string {
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

func parseCredentials(data []byte) (*credentials, error) {
	if len(data) > maxCredentials {
		return nil, faultf(KindInvalid, "the docker config has %d bytes, at most %d are read", len(data), maxCredentials)
	}

	var config struct {
		Auths map[string]login `json:"auths"`
	}
	// The parser's message may quote the input, so it is not passed on.
	if json.Unmarshal(data, &config) != nil {
		return nil, faultf(KindInvalid, `the docker config is not JSON of the form {"auths":{"registry":{"auth":"…"}}}`)
	}
	// The legacy form is the map alone. A file with other settings only has no logins.
	if config.Auths == nil && json.Unmarshal(data, &config.Auths) != nil {
		config.Auths = nil
	}

	creds := &credentials{auths: make(map[string]login, len(config.Auths))}
	for key, entry := range config.Auths {
		normal, err := entry.normal()
		if err != nil {
			return nil, faultf(KindInvalid, "the docker config's login for %q: %w", scrub(key, nil), err)
		}
		creds.auths[key] = normal
		creds.hide(entry.Password, normal.Auth, normal.IdentityToken, normal.parts().Password)
	}

	return creds, nil
}

// normal returns the entry in the form that every tool reads, where user and password
// stand in auth only.
func (l login) normal() (login, error) {
	if l.Auth == "" && l.Username != "" {
		l.Auth = base64.StdEncoding.EncodeToString([]byte(l.Username + ":" + l.Password))
	}

	if l.Auth != "" {
		plain, err := base64.StdEncoding.DecodeString(l.Auth)
		if err != nil {
			return login{}, errors.New(`"auth" is not base64`)
		}
		if !strings.Contains(string(plain), ":") {
			return login{}, errors.New(`"auth" is not the base64 form of user:password`)
		}
	}

	return login{Auth: l.Auth, IdentityToken: l.IdentityToken}, nil
}

// parts returns what a normal entry holds.
func (l login) parts() registry.Login {
	parts := registry.Login{IdentityToken: l.IdentityToken}
	if plain, err := base64.StdEncoding.DecodeString(l.Auth); err == nil {
		parts.Username, parts.Password, _ = strings.Cut(string(plain), ":")
		parts.Password = strings.TrimRight(parts.Password, "\x00") // as docker's own reader does
	}
	return parts
}

func (c *credentials) hide(secrets ...string) {
	for _, s := range secrets {
		// Striking very short strings would garble messages and hide little.
		if len(s) >= 4 {
			c.secrets = append(c.secrets, s)
		}
	}
}

// with adds the logins to those of a file, which may be missing.
func (c *credentials) with(file string) (map[string]login, error) {
	auths := map[string]login{}
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

// install makes the library use the credentials, by a file in a directory that only this
// user can read.
func (c *credentials) install(sys *types.SystemContext, dir string) error {
	if c == nil {
		return nil
	}

	auths, err := c.with(sys.AuthFilePath)
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

func readAuthFile(file string) (map[string]login, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, faultf(KindDenied, "read the auth file: %w", err)
	}

	creds, err := parseCredentials(data)
	if err != nil {
		return nil, faultf(KindDenied, "read the auth file %s: %w", file, err)
	}

	return creds.auths, nil
}

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
	"strings"

	"go.podman.io/image/v5/types"
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

// WithCredentials gives a client that also uses the logins of a Docker config, as it
// stands in a Secret of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg.
// A login for the same key beats the one of AuthFile; the home directory's are not used.
// Only logins are read: helper programs that the config names are never run.
func (c *Client) WithCredentials(dockerConfig []byte) (*Client, error) {
	creds, err := parseCredentials(dockerConfig)
	if err != nil {
		return nil, fail("read credentials", "", err)
	}
	return &Client{opts: c.opts, creds: creds}, nil
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
		creds.hide(entry.Password, normal.Auth, normal.IdentityToken, normal.password())
	}
	return creds, nil
}

// normal gives the entry in the form that every tool reads, where user and password
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

func (l login) password() string {
	plain, err := base64.StdEncoding.DecodeString(l.Auth)
	if err != nil {
		return ""
	}
	_, password, _ := strings.Cut(string(plain), ":")
	return password
}

func (c *credentials) hide(secrets ...string) {
	for _, s := range secrets {
		// Striking very short strings would garble messages and hide little.
		if len(s) >= 4 {
			c.secrets = append(c.secrets, s)
		}
	}
}

// install makes the library use the credentials, by a file that only this user can read:
// mirrors need logins too, and the library takes more than one only from a file. The
// returned function removes it.
func (c *credentials) install(sys *types.SystemContext) (func(), error) {
	if c == nil {
		return func() {}, nil
	}
	auths := map[string]login{}
	if sys.AuthFilePath != "" {
		fromFile, err := readAuthFile(sys.AuthFilePath)
		if err != nil {
			return nil, err
		}
		maps.Copy(auths, fromFile)
	}
	maps.Copy(auths, c.auths)
	data, err := json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		return nil, fmt.Errorf("encode credentials: %w", err)
	}
	dir, err := os.MkdirTemp("", "mainstay-auth-")
	if err != nil {
		return nil, fmt.Errorf("store credentials for the registry client (TMPDIR must be writable): %w", err)
	}
	cleanup := func() { _ = os.RemoveAll(dir) }
	sys.AuthFilePath = filepath.Join(dir, "config.json")
	if err := os.WriteFile(sys.AuthFilePath, data, 0o600); err != nil {
		cleanup()
		return nil, fmt.Errorf("store credentials for the registry client: %w", err)
	}
	return cleanup, nil
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

package image

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

const robot, password = "robot", "s3cr3t-Pass"

// basicAuth requires the login, and returns the sent login in the response, like a careless
// registry.
func basicAuth(w http.ResponseWriter, r *http.Request) bool {
	u, p, ok := r.BasicAuth()
	if ok && u == robot && p == password {
		return false
	}

	w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprintf(w, `{"errors":[{"code":"UNAUTHORIZED","message":"bad login %s:%s, see https://u:p@%s/help?token=abc"}]}`, u, p, r.Host)

	return true
}

func dockerConfig(host, user, password string) string {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, auth)
}

func TestCredentials(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	host := newRegistry(t, basicAuth)
	ref := host + "/private/cat:v1"
	good := dockerConfig(host, robot, password)
	withGood, err := NewClient(Options{}).WithCredentials([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := withGood.Push(t.Context(), ref, nil, catalogImage(t)); err != nil {
		t.Fatal(err)
	}

	const bad = "wr0ng-Pass"
	tests := map[string]struct {
		secret   string
		authFile string
		denied   bool
	}{
		"none":                     {denied: true},
		"pull secret":              {secret: good},
		"legacy pull secret":       {secret: strings.TrimSuffix(strings.TrimPrefix(good, `{"auths":`), "}")},
		"user and password":        {secret: fmt.Sprintf(`{"auths":{%q:{"username":%q,"password":%q}}}`, host, robot, password)},
		"for the repository":       {secret: dockerConfig(host+"/private", robot, password)},
		"for another repository":   {secret: dockerConfig(host+"/other", robot, password), denied: true},
		"wrong":                    {secret: dockerConfig(host, robot, bad), denied: true},
		"auth file":                {authFile: good},
		"secret beats file":        {secret: good, authFile: dockerConfig(host, robot, bad)},
		"file completes secret":    {secret: dockerConfig("example.com", robot, bad), authFile: good},
		"secret without logins":    {secret: `{"credsStore":"evil"}`, denied: true},
		"missing or empty entries": {secret: `{"auths":{}}`, authFile: `{}`, denied: true},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			opts := Options{}
			if test.authFile != "" {
				opts.AuthFile = writeFile(t, "auth.json", test.authFile)
			}

			client := NewClient(opts)
			if test.secret != "" {
				if client, err = client.WithCredentials([]byte(test.secret)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := pullAndExtract(t.Context(), t, client, ref, "/configs")
			if !test.denied {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, KindDenied, "check the pull secret")
			for _, secret := range []string{bad, password, "u:p@", "token=abc"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("got error %[2]v, want one without %[1]q", secret, err)
				}
			}
		})
	}

	// Only the specified logins are used.
	fromFile := NewClient(Options{AuthFile: writeFile(t, "auth.json", good)})
	for name, test := range map[string]struct {
		secret string
		denied bool
	}{"none": {"{}", true}, "for another registry": {dockerConfig("example.com", robot, bad), true}, "good": {good, false}} {
		only, err := fromFile.WithOnlyCredentials([]byte(test.secret))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pullAndExtract(t.Context(), t, only, ref, "/configs"); (err != nil) != test.denied {
			t.Errorf("with only the logins %s: got error %v, want denied: %v", name, err, test.denied)
		}
	}

	bads := []byte(dockerConfig(host, robot, bad))
	for _, test := range []struct {
		configs [][]byte
		good    bool
	}{{[][]byte{[]byte(good), bads}, true}, {[][]byte{bads, []byte(good)}, false}} {
		client, err := NewClient(Options{}).WithCredentials(test.configs...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resolve(t.Context(), ref); (err == nil) != test.good {
			t.Errorf("two logins for the same registry: got error %v, want the first one used", err)
		}
	}

	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) != 0 {
		t.Errorf("got leftover files %v with credentials (error %v), want none", left, err)
	}
}

func TestWithCredentialsRefuses(t *testing.T) {
	for name, config := range map[string]string{
		"no JSON":   `password: s3cr3t`,
		"no base64": `{"auths":{"example.com":{"auth":"s3cr3t!"}}}`,
		"no colon":  `{"auths":{"example.com":{"auth":"czNjcjN0"}}}`,
		"too large": strings.Repeat(" ", maxCredentialsBytes+1),
	} {
		_, err := NewClient(Options{}).WithCredentials([]byte(config))
		wantError(t, err, KindInvalid, "docker config")
		if strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: got error %v, want one without the password", name, err)
		}
	}
}

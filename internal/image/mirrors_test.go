package image

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.podman.io/image/v5/docker/policyconfiguration"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
)

// TestMatchPrefixAgreesWithLibrary compares the matching of names with the library that all
// container tools use.
func TestMatchPrefixAgreesWithLibrary(t *testing.T) {
	prefixes := []string{
		"example.com", "example.com:5000", "example.com/a", "example.com/a/b", "*.example.com", "*.com", "a.example.com",
		"example", "localhost:5000", "example.com/a-b", "*.a.example.com",
	}
	names := []string{
		"example.com/a", "example.com/a/b", "example.com/ab", "example.com/a/b/c", "example.com:5000/a", "example.com.org/a",
		"a.example.com/a", "b.a.example.com:1/x", "a.example.com.org/x", "notexample.com/x", "localhost:5000/x", "localhost:50001/x",
		"example.com/a-b/c", "org/a.example.com/x", "example/a",
	}
	for _, prefix := range prefixes {
		conf := fmt.Sprintf("[[registry]]\nprefix = %q\n", prefix)
		if !strings.HasPrefix(prefix, "*.") {
			conf += fmt.Sprintf("location = %q\n", prefix)
		}
		client := NewClient(Options{RegistriesConf: writeFile(t, "registries.conf", conf)})
		for _, repository := range names {
			found, err := sysregistriesv2.FindRegistry(client.registries.systemContext(), repository)
			if err != nil {
				t.Fatal(err)
			}
			if got := matchPrefix(repository, prefix) >= 0; got != (found != nil) {
				t.Errorf("%s within %s: got %t, want %t of the library", repository, prefix, got, found != nil)
			}
		}
	}
}

// TestPolicyScopesAgreeWithLibrary compares the scopes of signature policies with the
// library.
func TestPolicyScopesAgreeWithLibrary(t *testing.T) {
	for _, ref := range []string{"quay.io/a/b:v1", "a.b.example.com:5000/x/y/z@sha256:" + strings.Repeat("0", 64), "localhost/x", "busybox"} {
		n, err := parseReference(ref)
		if err != nil {
			t.Fatal(err)
		}

		named, err := reference.ParseNamed(n.String())
		if err != nil {
			t.Fatal(err)
		}

		identity, err := policyconfiguration.DockerReferenceIdentity(named)
		if err != nil {
			t.Fatal(err)
		}

		want := append([]string{identity}, policyconfiguration.DockerReferenceNamespaces(named)...)
		if diff := cmp.Diff(append(want, ""), policyScopes(n)); diff != "" {
			t.Errorf("%s (-library +ours):\n%s", ref, diff)
		}
	}
}

// TestFindPullSources checks the pull sources from files and rules.
func TestFindPullSources(t *testing.T) {
	const conf = `
[[registry]]
location = "quay.io"
[[registry.mirror]]
location = "file-mirror.example.com/quay"

[[registry]]
prefix = "moved.example.com"
location = "new.example.com/old"
insecure = true

[[registry]]
location = "insecure.example.com"
insecure = true

[[registry]]
prefix = "digests.example.com"
location = "digests.example.com"
mirror-by-digest-only = true
[[registry.mirror]]
location = "mirror.example.com/digests"

[[registry]]
location = "bad.example.com"
blocked = true

[[registry]]
prefix = "*.wild.example.com"
[[registry.mirror]]
location = "wild.mirror.example.com"

[[registry]]
location = "specific.example.com/team/app"
[[registry.mirror]]
location = "file-mirror.example.com/app"
`
	rules := []MirrorRule{
		{Source: "quay.io", Mirrors: []Mirror{{Location: "mirror.example.com:5000/quay"}, {Location: "insecure.example.com/quay", Only: DigestOnly}}},
		{Source: "quay.io/team", Mirrors: []Mirror{{Location: "mirror.example.com/team", Only: TagOnly}}, Blocked: true},
		{Source: "moved.example.com/team", Mirrors: []Mirror{{Location: "mirror.example.com/moved"}}},
		{Source: "*.corp.example.com", Mirrors: []Mirror{{Location: "mirror.example.com/corp"}}, Blocked: true},
		{Source: "specific.example.com/team", Mirrors: []Mirror{{Location: "mirror.example.com/unused"}}},
		{Source: "here.example.com", Mirrors: []Mirror{{Location: "localhost:5000"}, {Location: "[::1]:5000/x"}, {Location: "bad.example.com/x"}}},
		{Source: "odd.example.com", Mirrors: []Mirror{{Location: "no-registry"}}},
		{Source: "digests.example.com", Blocked: true},
		{Source: "bad.example.com/team", Mirrors: []Mirror{{Location: "mirror.example.com/team"}}},
	}
	client := NewClient(Options{RegistriesConf: writeFile(t, "registries.conf", conf), Mirrors: func() []MirrorRule { return rules }})
	const digest = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	tests := map[string][]string{ // insecure ones have an exclamation mark
		"quay.io/a/b:v1":                 {"mirror.example.com:5000/quay/a/b:v1", "file-mirror.example.com/quay/a/b:v1", "quay.io/a/b:v1"},
		"quay.io/a/b" + digest:           {"mirror.example.com:5000/quay/a/b" + digest, "insecure.example.com/quay/a/b" + digest + "!", "file-mirror.example.com/quay/a/b" + digest, "quay.io/a/b" + digest},
		"quay.io/team/b:v1":              {"mirror.example.com/team/b:v1"},
		"quay.io/team/b" + digest:        {"the registry quay.io/team is blocked by the registries configuration"},
		"quay.io/teams/b:v1":             {"mirror.example.com:5000/quay/teams/b:v1", "file-mirror.example.com/quay/teams/b:v1", "quay.io/teams/b:v1"},
		"moved.example.com/a:v1":         {"new.example.com/old/a:v1!"},
		"moved.example.com/team/a:v1":    {"mirror.example.com/moved/a:v1", "new.example.com/old/team/a:v1!"},
		"a.corp.example.com/x:v1":        {"mirror.example.com/corp/x:v1"},
		"a.corp.example.com:8443/x:v1":   {"mirror.example.com/corp/x:v1"},
		"corp.example.com/x:v1":          {"corp.example.com/x:v1"},
		"a.wild.example.com/x:v1":        {"wild.mirror.example.com/x:v1", "a.wild.example.com/x:v1"},
		"specific.example.com/team/app":  {"file-mirror.example.com/app:latest", "specific.example.com/team/app:latest"},
		"specific.example.com/team/apps": {"mirror.example.com/unused/apps:latest", "specific.example.com/team/apps:latest"},
		"digests.example.com/a:v1":       {"the registry digests.example.com is blocked by the registries configuration"},
		"digests.example.com/a" + digest: {"mirror.example.com/digests/a" + digest},
		"here.example.com/a:v1":          {"localhost:5000/a:v1!", "[::1]:5000/x/a:v1!", "here.example.com/a:v1"},
		"bad.example.com/a:v1":           {"the registry bad.example.com is blocked by the registries configuration"},
		"bad.example.com/team/a:v1":      {"mirror.example.com/team/a:v1"},
		"odd.example.com/a:v1":           {`the registries configuration leads from odd.example.com to "no-registry": it is not a registry, but an image of docker.io`},
		"localhost/a:v1":                 {"localhost/a:v1!"},
		"[::1]/a:v1":                     {"[::1]/a:v1!"},
		"[2001:db8::1]:5000/a:v1":        {"[2001:db8::1]:5000/a:v1"},
		"busybox":                        {"docker.io/library/busybox:latest"},
	}
	for ref, want := range tests {
		n, err := parseReference(ref)
		if err != nil {
			t.Fatal(err)
		}
		places, err := client.registries.findPullSources(client.registries.systemContext(), n)
		var got []string
		if err != nil {
			got = []string{err.Error()}
		}
		for _, place := range places {
			text := place.name.String()
			if place.insecure {
				text += "!"
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ref, diff)
		}
	}
}

func TestFindLogin(t *testing.T) {
	auths := map[string]authEntry{
		"quay.io": {Auth: "host"}, "quay.io/org": {Auth: "org"}, "quay.io/org/app": {Auth: "app"},
		"https://index.docker.io/v1/": {Auth: "docker"}, "http://old.example.com/v1/": {Auth: "old"},
		"other.example.com/org": {Auth: "not for others"}, "[::1]:5000": {Auth: "ipv6"},
	}
	for repository, want := range map[string]string{
		"quay.io/x/y": "host", "quay.io/org/x": "org", "quay.io/org/app": "app", "quay.io/org/app/deep": "app", "quay.io/organ": "host",
		"docker.io/library/busybox": "docker", "old.example.com/x": "old", "other.example.com/x": "", "other.example.com/org/x": "not for others",
		"quay.io.example.com/x": "", "[::1]:5000/x": "ipv6",
	} {
		if got := findAuthEntry(auths, repository).Auth; got != want {
			t.Errorf("%s: got %q, want %q", repository, got, want)
		}
	}
}

// TestFallBackFromFailingMirrors checks that an image is pulled from the next source if a
// mirror fails, in any way and at any point.
func TestFallBackFromFailingMirrors(t *testing.T) {
	built := catalogImage(t)
	layer := built.layers[0]
	isManifest := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/manifests/") }
	isLayer := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, layer.digest.String())
	}
	answer := func(which func(*http.Request) bool, handler http.HandlerFunc) middleware {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet && r.Method != http.MethodHead || !which(r) {
				return false
			}
			handler(w, r)
			return true
		}
	}

	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(layer.data)))
		_, _ = w.Write(layer.data[:20])
	}
	for name, mirror := range map[string]middleware{
		"good":                     nil,
		"does not have it":         answer(isManifest, status(404)),
		"wants a login":            answer(isManifest, status(401)),
		"is broken":                answer(isManifest, status(500)),
		"limits requests":          answer(isManifest, status(429)),
		"never answers":            answer(isManifest, hang),
		"sends a wrong manifest":   answer(isManifest, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"schemaVersion":2}`)) }),
		"does not have its layers": answer(isLayer, status(404)),
		"cannot read its layers":   answer(isLayer, status(500)),
		"cuts its layers":          answer(isLayer, cut),
	} {
		t.Run(name, func(t *testing.T) {
			expectNoLeftovers(t, func() {
				first, second := newServer(t, mirror), newServer(t, nil)
				defer first.Close()
				defer second.Close()
				pushImage(t, hostOf(first)+"/mirror/org/cat:v1", built)
				canonical := pushImage(t, hostOf(second)+"/org/cat:v1", built)
				client := NewClient(Options{
					Timeouts: Timeouts{Open: time.Second, Backoff: time.Microsecond},
					Mirrors: func() []MirrorRule {
						return []MirrorRule{{Source: hostOf(second), Mirrors: []Mirror{{Location: hostOf(first) + "/mirror"}, {Location: "127.0.0.1:1"}}}}
					},
				})

				got, err := pullAndExtract(t.Context(), t, client, canonical, "/configs")
				if err != nil || len(got) != 2 {
					t.Errorf("got %v (%v)", got, err)
				}
			})
		})
	}
}

package catalogs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/image"
)

// validateImageReference refuses image references that depend on the local configuration:
// short names, and names without a tag or digest.
func validateImageReference(ref string) error {
	name, digest, hasDigest := strings.Cut(ref, "@")
	domain, path, hasPath := strings.Cut(name, "/")
	fault := ""
	switch {
	case !hasPath || !strings.ContainsAny(domain, ".:") && domain != "localhost":
		fault = "it does not start with a registry"
	case path == "":
		fault = "there is no repository after the registry"
	case domain == "index.docker.io":
		fault = "the registry index.docker.io is named docker.io"
	case domain == "docker.io" && !strings.Contains(path, "/"):
		fault = "repositories of docker.io have two parts, such as docker.io/library/" + RepositoryOf(path)
	}
	if fault != "" {
		// The first words are those of the field, which tools match.
		return fmt.Errorf("repository name must be canonical: %s; a valid reference is %s", fault, image.ExampleReference)
	}

	hasTag := RepositoryOf(name) != name
	switch {
	case !hasTag && (!hasDigest || digest == ""):
		return fmt.Errorf("Docker reference %s is not for an unknown digest case; tag or digest is needed", ref) //nolint:staticcheck // the field's words
	case hasTag && hasDigest:
		return errors.New("Docker references with both a tag and digest are currently not supported") //nolint:staticcheck // the field's words
	}

	return nil
}

// RepositoryOf returns a reference without its tag and digest.
func RepositoryOf(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if slash := strings.LastIndex(ref, "/"); strings.Contains(ref[slash+1:], ":") {
		ref = ref[:strings.LastIndex(ref, ":")]
	}
	return ref
}

// maxAuthFileBytes limits the size of a file with logins.
const maxAuthFileBytes = 4 << 20

// hasRegistryLogin reports whether a Docker config.json has a login for the repository of a
// reference, for a parent path of it, or for its registry. It returns false for a file that
// cannot be read.
func hasRegistryLogin(file, ref string) bool {
	info, err := os.Stat(file)
	if err != nil || info.Size() > maxAuthFileBytes {
		return false
	}

	data, err := os.ReadFile(file)
	if err != nil {
		return false
	}

	var config struct {
		Auths       map[string]json.RawMessage `json:"auths"`
		CredHelpers map[string]string          `json:"credHelpers"`
	}
	if json.Unmarshal(data, &config) != nil {
		return false
	}

	for name := RepositoryOf(ref); name != ""; {
		if _, ok := config.Auths[name]; ok {
			return true
		}
		slash := strings.LastIndex(name, "/")
		if slash < 0 {
			_, ok := config.CredHelpers[name]
			_, legacy := config.Auths["https://"+name]
			return ok || legacy
		}
		name = name[:slash]
	}

	return false
}

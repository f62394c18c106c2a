package releaseimage

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// rewriter replaces references of images in manifests.
type rewriter struct {
	// anyVersion are repositories that are replaced with whatever tag or digest follows them.
	anyVersion map[string]string
	// exact are whole references.
	exact map[string]string
	// needles are both, the longest first: of two that begin at one place it is meant. They
	// stand under their registries, so that most of a text is looked at once.
	needles map[string][]string
}

// listed is an image that manifests name somehow.
type listed struct {
	// reference by which they name it.
	reference string
	// pullSpec is what they shall name it by.
	pullSpec string
}

// newRewriter makes a rewriter. An image is found by its repository, with whatever version;
// where several share a repository, only by the reference.
func newRewriter(images []listed) rewriter {
	r := rewriter{anyVersion: map[string]string{}, exact: map[string]string{}}
	references := map[string]map[string]bool{}
	for _, image := range images {
		repository := RepositoryOf(image.reference)
		if references[repository] == nil {
			references[repository] = map[string]bool{}
		}
		references[repository][image.reference] = true
	}

	for _, image := range images {
		if repository := RepositoryOf(image.reference); len(references[repository]) == 1 {
			r.anyVersion[repository] = image.pullSpec
		} else {
			r.exact[image.reference] = image.pullSpec
		}
	}

	r.needles = map[string][]string{}
	for _, found := range []map[string]string{r.anyVersion, r.exact} {
		for needle := range found {
			registry, _, _ := strings.Cut(needle, "/")
			r.needles[registry] = append(r.needles[registry], needle)
		}
	}

	for _, needles := range r.needles {
		slices.SortFunc(needles, func(a, b string) int { return len(b) - len(a) })
	}

	return r
}

// RepositoryOf returns a reference without tag and digest.
func RepositoryOf(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	if i := strings.LastIndex(reference, ":"); i > strings.LastIndex(reference, "/") {
		reference = reference[:i]
	}
	return reference
}

// versionPattern is what may follow a repository.
var versionPattern = regexp.MustCompile(`^(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[a-z0-9]+:[0-9a-f]{32,})?`)

// rewrite replaces the images in a text.
func (r rewriter) rewrite(text []byte) []byte {
	if len(r.needles) == 0 {
		return text
	}

	var out bytes.Buffer
	for at := 0; at < len(text); {
		if pullSpec, length := r.at(text, at); length > 0 {
			out.WriteString(pullSpec)
			at += length
			continue
		}

		next := at + 1
		if bytes.HasPrefix(text[at:], []byte("//")) {
			// A transport stands before the name, as in docker://name.
			out.WriteString("//")
			at += 2
			continue
		}

		if isNamePart(text[at]) {
			// What follows is part of the same name.
			for next < len(text) && isNamePart(text[next]) {
				next++
			}
		}

		out.Write(text[at:next])
		at = next
	}

	return out.Bytes()
}

// at tells what stands at a place where a name begins.
func (r rewriter) at(text []byte, at int) (pullSpec string, length int) {
	if !isNamePart(text[at]) {
		return "", 0
	}

	rest := text[at:]
	for registry, needles := range r.needles {
		if !bytes.HasPrefix(rest, []byte(registry)) {
			continue
		}
		if pullSpec, length := r.among(needles, rest); length > 0 {
			return pullSpec, length
		}
	}

	return "", 0
}

// among tells which of the references a text begins with.
func (r rewriter) among(needles []string, rest []byte) (pullSpec string, length int) {
	for _, needle := range needles {
		if !bytes.HasPrefix(rest, []byte(needle)) {
			continue
		}

		end := len(needle)
		pullSpec, anyVersion := r.anyVersion[needle]
		if anyVersion {
			end += len(versionPattern.Find(rest[end:]))
		} else {
			pullSpec = r.exact[needle]
		}

		if end == len(rest) || !continues(rest[end:]) {
			return pullSpec, end
		}
	}

	return "", 0
}

// isNamePart reports whether a byte can be part of the name of an image.
func isNamePart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-/@", c) >= 0
}

// continues reports whether what follows a reference belongs to it, so that it is another
// one. A dot ends a sentence unless more of a name follows.
func continues(rest []byte) bool {
	if rest[0] == ':' || rest[0] == '.' {
		return len(rest) > 1 && isNamePart(rest[1]) && rest[1] != '/'
	}
	return isNamePart(rest[0])
}

// snapshotPattern is what stands for versions in the manifests of components.
var snapshotPattern = regexp.MustCompile(`0\.0\.1-snapshot(?:-([a-z0-9]+(?:-[a-z0-9]+)*))?`)

// replaceVersions replaces 0.0.1-snapshot by the name of the release, without what stands after a
// plus, and 0.0.1-snapshot-<component> by the version of that component.
func replaceVersions(text []byte, name string, components map[string]string) ([]byte, error) {
	var wrong []error
	name, _, _ = strings.Cut(name, "+")
	replaced := snapshotPattern.ReplaceAllFunc(text, func(found []byte) []byte {
		key := string(snapshotPattern.FindSubmatch(found)[1])
		if key == "" {
			return []byte(name)
		}

		version, ok := components[key]
		if !ok {
			wrong = append(wrong, fmt.Errorf("0.0.1-snapshot-%s: no image of the release says which version %q has", key, key))
		}

		return []byte(version)
	})

	return replaced, errors.Join(wrong...)
}

// parseVersions reads a label that lists versions, as name=version with commas.
func parseVersions(text string) (map[string]string, error) {
	versions := map[string]string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}

		key, value, ok := strings.Cut(item, "=")
		if !ok || !componentPattern.MatchString(key) {
			return nil, fmt.Errorf("%q is not written as component=version", item)
		}
		if _, err := semver.Parse(value); err != nil {
			return nil, fmt.Errorf("component %s: %q is no semantic version: %w", key, value, err)
		}

		versions[key] = value
	}

	return versions, nil
}

var componentPattern = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)

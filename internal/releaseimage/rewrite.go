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
	// byRepository maps repositories to the replacement of references with any tag or digest.
	byRepository map[string]string
	// byReference maps complete references to their replacements.
	byReference map[string]string
	// needles are the keys of both, longest first, because the longest match wins. They are
	// grouped by registry, so that most of a text is scanned only once.
	needles map[string][]string
}

// imageReplacement is a reference in manifests and its replacement.
type imageReplacement struct {
	// reference is the reference in the manifests.
	reference string
	// pullSpec is the replacement.
	pullSpec string
}

// newRewriter returns a rewriter. It matches an image by its repository, with any version. If
// several images share a repository, it matches complete references.
func newRewriter(images []imageReplacement) rewriter {
	r := rewriter{byRepository: map[string]string{}, byReference: map[string]string{}}
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
			r.byRepository[repository] = image.pullSpec
		} else {
			r.byReference[image.reference] = image.pullSpec
		}
	}

	r.needles = map[string][]string{}
	for _, found := range []map[string]string{r.byRepository, r.byReference} {
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

// versionPattern matches what may follow a repository.
var versionPattern = regexp.MustCompile(`^(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[a-z0-9]+:[0-9a-f]{32,})?`)

// replaceImages replaces the images in a text.
func (r rewriter) replaceImages(text []byte) []byte {
	if len(r.needles) == 0 {
		return text
	}

	var out bytes.Buffer
	for at := 0; at < len(text); {
		if pullSpec, length := r.matchReferenceAt(text, at); length > 0 {
			out.WriteString(pullSpec)
			at += length
			continue
		}

		next := at + 1
		if bytes.HasPrefix(text[at:], []byte("//")) {
			// A transport precedes the name, as in docker://name.
			out.WriteString("//")
			at += 2
			continue
		}

		if isImageNameByte(text[at]) {
			// Skip the rest of the name.
			for next < len(text) && isImageNameByte(text[next]) {
				next++
			}
		}

		out.Write(text[at:next])
		at = next
	}

	return out.Bytes()
}

// matchReferenceAt returns the replacement and length of the reference that starts at an offset, where a
// name starts. The length is 0 if there is none.
func (r rewriter) matchReferenceAt(text []byte, at int) (pullSpec string, length int) {
	if !isImageNameByte(text[at]) {
		return "", 0
	}

	rest := text[at:]
	for registry, needles := range r.needles {
		if !bytes.HasPrefix(rest, []byte(registry)) {
			continue
		}
		if pullSpec, length := r.matchReference(needles, rest); length > 0 {
			return pullSpec, length
		}
	}

	return "", 0
}

// matchReference returns the replacement and length of the first needle that a text starts with.
func (r rewriter) matchReference(needles []string, rest []byte) (pullSpec string, length int) {
	for _, needle := range needles {
		if !bytes.HasPrefix(rest, []byte(needle)) {
			continue
		}

		end := len(needle)
		pullSpec, anyVersion := r.byRepository[needle]
		if anyVersion {
			end += len(versionPattern.Find(rest[end:]))
		} else {
			pullSpec = r.byReference[needle]
		}

		if end == len(rest) || !continuesReference(rest[end:]) {
			return pullSpec, end
		}
	}

	return "", 0
}

// isImageNameByte reports whether a byte can be part of an image name.
func isImageNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-/@", c) >= 0
}

// continuesReference reports whether the rest of a text continues a reference, so that it is
// another reference. A dot ends a sentence unless a name follows.
func continuesReference(rest []byte) bool {
	if rest[0] == ':' || rest[0] == '.' {
		return len(rest) > 1 && isImageNameByte(rest[1]) && rest[1] != '/'
	}
	return isImageNameByte(rest[0])
}

// snapshotPattern matches the placeholders of versions in the manifests of components.
var snapshotPattern = regexp.MustCompile(`0\.0\.1-snapshot(?:-([a-z0-9]+(?:-[a-z0-9]+)*))?`)

// replaceVersions replaces 0.0.1-snapshot by the name of the release without build metadata, and
// 0.0.1-snapshot-<component> by the version of that component.
func replaceVersions(text []byte, name string, components map[string]string) ([]byte, error) {
	var errs []error
	name, _, _ = strings.Cut(name, "+")
	replaced := snapshotPattern.ReplaceAllFunc(text, func(found []byte) []byte {
		key := string(snapshotPattern.FindSubmatch(found)[1])
		if key == "" {
			return []byte(name)
		}

		version, ok := components[key]
		if !ok {
			errs = append(errs, fmt.Errorf("0.0.1-snapshot-%s: no image of the release states the version of %q", key, key))
		}

		return []byte(version)
	})

	return replaced, errors.Join(errs...)
}

// parseVersions parses a label with comma-separated versions, as name=version.
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
			return nil, fmt.Errorf("component %s: %q is not a semantic version: %w", key, value, err)
		}

		versions[key] = value
	}

	return versions, nil
}

var componentPattern = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)

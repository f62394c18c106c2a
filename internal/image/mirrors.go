package image

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"
)

// MirrorRule configures where the images of a source are pulled from, in addition to
// registries.conf.
//
// Only the rule with the longest source that matches an image's name applies. If
// registries.conf has an entry for the same source, the rule's mirrors come before those of
// the entry. If its entry is for a narrower prefix, only the entry applies. If its entry is
// for a wider prefix, the entry's settings of the registry itself (location, blocked,
// insecure) also apply to the rule's source.
type MirrorRule struct {
	// Source is host[:port], host[:port]/path, or *.domain.
	Source string
	// Mirrors are tried in this order, before the source.
	Mirrors []Mirror
	// Blocked excludes the source itself. Only its mirrors are used.
	Blocked bool
}

// Mirror is a registry or repository with copies of a source's images.
type Mirror struct {
	// Location is host[:port] or host[:port]/path. It replaces the source in names.
	Location string
	// Only restricts the mirror to references of one kind. If empty, the mirror is used for
	// all references.
	Only ReferenceKind
}

// ReferenceKind is a kind of image references.
type ReferenceKind string

// Kinds of references, with the values of registries.conf.
const (
	DigestOnly ReferenceKind = sysregistriesv2.MirrorByDigestOnly
	TagOnly    ReferenceKind = sysregistriesv2.MirrorByTagOnly
)

// pullSource is a repository that an image is pulled from: a mirror or the repository
// itself.
type pullSource struct {
	name     imageReference
	insecure bool
}

// findPullSources returns the sources of an image in order. It returns an error of
// KindDenied if all of them are blocked.
func (c *connector) findPullSources(sys *types.SystemContext, n imageReference) ([]pullSource, error) {
	registry, err := c.findRegistryConfig(sys, n.repository())
	if err != nil {
		return nil, err
	}

	endpoints := []sysregistriesv2.Endpoint{{Location: n.repository()}}
	prefix := n.repository()
	if registry != nil {
		endpoints = endpointsForReference(registry, n)
		prefix = registry.Prefix
	}

	var found []pullSource
	blocked := ""
	for _, endpoint := range endpoints {
		physical, err := rewriteReference(n, prefix, endpoint.Location)
		if err != nil {
			return nil, err
		}

		rule, err := c.findRegistryConfig(sys, physical.repository())
		if err != nil {
			return nil, err
		}
		if rule != nil && rule.Blocked {
			blocked = rule.Prefix
			continue
		}

		insecure, err := c.allowsInsecureAccess(sys, physical)
		if err != nil {
			return nil, err
		}

		found = append(found, pullSource{name: physical, insecure: insecure || endpoint.Insecure})
	}

	if len(found) == 0 {
		return nil, kindErrorf(KindDenied, "the registry %s is blocked by the registries configuration", blocked)
	}

	return found, nil
}

// allowsInsecureAccess reports whether a registry may be reached without TLS or with an
// unknown certificate. The configuration decides. As in other container tools, a registry
// on this machine without any configuration is insecure, because there is no network in
// between.
func (c *connector) allowsInsecureAccess(sys *types.SystemContext, n imageReference) (bool, error) {
	configured, err := findRegistryInFiles(sys, n.repository())
	if err != nil || c.opts.Insecure {
		return c.opts.Insecure, err
	}
	if configured != nil {
		return configured.Insecure, nil
	}

	dir, err := findCertificatesDir(sys, n.domain)
	return isLoopbackHost(n.domain) && dir == "", err
}

// findRegistryConfig returns the configuration of a repository from files and mirror rules.
// It is nil when nothing is configured.
func (c *connector) findRegistryConfig(sys *types.SystemContext, repository string) (*sysregistriesv2.Registry, error) {
	file, err := findRegistryInFiles(sys, repository)
	if err != nil {
		return nil, err
	}
	if c.opts.Mirrors == nil {
		return file, nil
	}
	return mergeMirrorRule(file, longestMatchingRule(c.opts.Mirrors(), repository)), nil
}

func findRegistryInFiles(sys *types.SystemContext, repository string) (*sysregistriesv2.Registry, error) {
	registry, err := sysregistriesv2.FindRegistry(sys, repository)
	if err != nil {
		return nil, kindErrorf(KindDenied, "read the registries configuration: %w", err)
	}
	return registry, nil
}

// longestMatchingRule returns the rule with the longest source that contains a repository,
// or nil.
func longestMatchingRule(rules []MirrorRule, repository string) *MirrorRule {
	var best *MirrorRule
	for i := range rules {
		if matchPrefix(repository, rules[i].Source) >= 0 && (best == nil || len(rules[i].Source) > len(best.Source)) {
			best = &rules[i]
		}
	}
	return best
}

// mergeMirrorRule combines a rule with the entry of registries.conf for the same
// repository. Both may be nil.
func mergeMirrorRule(file *sysregistriesv2.Registry, rule *MirrorRule) *sysregistriesv2.Registry {
	if rule == nil || (file != nil && len(file.Prefix) > len(rule.Source)) {
		return file
	}

	merged := sysregistriesv2.Registry{Prefix: rule.Source, Blocked: rule.Blocked}
	if !strings.HasPrefix(rule.Source, "*.") {
		merged.Location = rule.Source
	}

	for _, mirror := range rule.Mirrors {
		merged.Mirrors = append(merged.Mirrors, sysregistriesv2.Endpoint{Location: mirror.Location, PullFromMirror: string(mirror.Only)})
	}

	if file == nil {
		return &merged
	}

	merged.Blocked = merged.Blocked || file.Blocked
	merged.Insecure = file.Insecure
	if rest := matchPrefix(rule.Source, file.Prefix); rest >= 0 && file.Location != "" && merged.Location != "" {
		merged.Location = file.Location + rule.Source[rest:]
	}
	if file.Prefix == rule.Source {
		merged.Location = file.Location
		merged.Mirrors = append(merged.Mirrors, mirrorsOfRegistry(file)...)
	}

	return &merged
}

// mirrorsOfRegistry returns the mirrors of an entry, each with the restriction that the
// entry has for all of them.
func mirrorsOfRegistry(registry *sysregistriesv2.Registry) []sysregistriesv2.Endpoint {
	mirrors := slices.Clone(registry.Mirrors)
	for i := range mirrors {
		if registry.MirrorByDigestOnly {
			mirrors[i].PullFromMirror = sysregistriesv2.MirrorByDigestOnly
		}
	}
	return mirrors
}

// endpointsForReference returns the mirrors of an entry that may serve a reference, and
// then the registry itself.
func endpointsForReference(registry *sysregistriesv2.Registry, n imageReference) []sysregistriesv2.Endpoint {
	unwanted := sysregistriesv2.MirrorByDigestOnly
	if n.digest != "" {
		unwanted = sysregistriesv2.MirrorByTagOnly
	}

	endpoints := slices.DeleteFunc(mirrorsOfRegistry(registry), func(mirror sysregistriesv2.Endpoint) bool {
		return mirror.PullFromMirror == unwanted
	})
	return append(endpoints, registry.Endpoint)
}

// matchPrefix returns how many characters of a repository's name a prefix of
// registries.conf covers. It returns -1 when the prefix does not match.
func matchPrefix(repository, prefix string) int {
	if domain, ok := strings.CutPrefix(prefix, "*."); ok {
		host, _, _ := strings.Cut(repository, "/")
		at := strings.Index(host, "."+domain)
		if at < 0 {
			return -1
		}
		return checkPrefixEnd(repository, at+1+len(domain))
	}

	if !strings.HasPrefix(repository, prefix) {
		return -1
	}
	return checkPrefixEnd(repository, len(prefix))
}

// checkPrefixEnd returns n if a prefix of n characters ends at the end of a name's
// component, and -1 otherwise.
func checkPrefixEnd(repository string, n int) int {
	if n == len(repository) || repository[n] == '/' || repository[n] == ':' {
		return n
	}
	return -1
}

// rewriteReference returns the reference with prefix replaced by location.
func rewriteReference(n imageReference, prefix, location string) (imageReference, error) {
	covered := matchPrefix(n.repository(), prefix)
	if location == "" || covered < 0 {
		return n, nil
	}

	version := ":" + n.tag
	if n.digest != "" {
		version = "@" + n.digest.String()
	}

	rest := n.repository()[covered:]
	if strings.HasPrefix(rest, ":") {
		rest = "/" + n.path // The prefix is a host, which matches each of its ports.
	}

	text := location + rest
	rewritten, err := parseReference(text + version)
	if err == nil && rewritten.repository() != text {
		err = fmt.Errorf("it is not a registry, but an image of %s", rewritten.domain)
	}
	if err != nil {
		return imageReference{}, kindErrorf(KindDenied, "the registries configuration leads from %s to %q: %w", prefix, location, err)
	}

	return rewritten, nil
}

// CheckSource returns an error if the source of a mirror rule is invalid.
func CheckSource(source string) error {
	domain, wildcard := strings.CutPrefix(source, "*.")
	if !wildcard {
		return CheckLocation(source)
	}
	if strings.ContainsAny(domain, "/:*[]") {
		return errors.New("a wildcard matches hosts only: write it as *.example.com")
	}
	return CheckLocation(domain)
}

// CheckLocation returns an error if the location of a mirror is invalid.
func CheckLocation(location string) error {
	if strings.Contains(location, "://") {
		return errors.New("it is a URL: leave out the scheme before the host")
	}

	n, err := parseReference(location + "/x/y:latest")
	if err != nil || n.tag != "latest" || n.digest != "" {
		return errors.New("it is not of the form host[:port][/path]")
	}
	if n.repository() != location+"/x/y" {
		return errors.New("it does not begin with a registry's host: that has a dot or a port, or is localhost")
	}

	return nil
}

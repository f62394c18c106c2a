package image

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.podman.io/image/v5/pkg/sysregistriesv2"
	"go.podman.io/image/v5/types"
)

// MirrorRule says where the images of a source are pulled from, beside what
// registries.conf says about it.
//
// The rule with the longest source that an image's name begins with counts, and no other.
// Where registries.conf has an entry for the same source, the rule's mirrors come before
// the entry's; where its entry is for less, the entry counts alone; where its entry is for
// more, what it says about the registry itself (location, blocked, insecure) holds for the
// rule's source too.
type MirrorRule struct {
	// Source is host[:port], host[:port]/path, or *.domain.
	Source string
	// Mirrors are asked in this order, before the source.
	Mirrors []Mirror
	// Blocked has the source never be asked itself.
	Blocked bool
}

// Mirror is a place that has copies of a source's images.
type Mirror struct {
	// Location is host[:port] or host[:port]/path, and replaces the source in names.
	Location string
	// Only restricts the mirror to some references. Zero: it is used for all.
	Only ReferenceKind
}

// ReferenceKind is a kind of references.
type ReferenceKind string

// Kinds of references, in the words of registries.conf.
const (
	DigestOnly ReferenceKind = sysregistriesv2.MirrorByDigestOnly
	TagOnly    ReferenceKind = sysregistriesv2.MirrorByTagOnly
)

// source is a place that an image is looked for.
type source struct {
	name     name
	insecure bool
}

// sources returns the places that an image is looked for, in order. It is an error when all
// of them are blocked.
func (c *Client) sources(sys *types.SystemContext, n name) ([]source, error) {
	registry, err := c.registryOf(sys, n.repository())
	if err != nil {
		return nil, err
	}

	endpoints := []sysregistriesv2.Endpoint{{Location: n.repository()}}
	prefix := n.repository()
	if registry != nil {
		endpoints, prefix = endpointsOf(registry, n), registry.Prefix
	}

	var found []source
	blocked := ""
	for _, endpoint := range endpoints {
		physical, err := rewrite(n, prefix, endpoint.Location)
		if err != nil {
			return nil, err
		}

		rule, err := c.registryOf(sys, physical.repository())
		if err != nil {
			return nil, err
		}
		if rule != nil && rule.Blocked {
			blocked = rule.Prefix
			continue
		}

		insecure, err := c.insecure(sys, physical)
		if err != nil {
			return nil, err
		}

		found = append(found, source{name: physical, insecure: insecure || endpoint.Insecure})
	}

	if len(found) == 0 {
		return nil, faultf(KindDenied, "the registry %s is blocked by the registries configuration", blocked)
	}

	return found, nil
}

// insecure reports whether a registry may do without TLS or a certificate that is known. As
// with every container tool that is one on this machine, since there is no network
// between, unless something is configured for it; and what is configured so.
func (c *Client) insecure(sys *types.SystemContext, n name) (bool, error) {
	configured, err := findRegistry(sys, n.repository())
	if err != nil || c.opts.Insecure {
		return c.opts.Insecure, err
	}
	if configured != nil {
		return configured.Insecure, nil
	}

	dir, err := certificatesOf(sys, n.domain)
	return isLoopback(n.domain) && dir == "", err
}

// registryOf returns what is configured for a repository, in files and by rules, nil when
// nothing is.
func (c *Client) registryOf(sys *types.SystemContext, repository string) (*sysregistriesv2.Registry, error) {
	file, err := findRegistry(sys, repository)
	if err != nil {
		return nil, err
	}
	if c.opts.Mirrors == nil {
		return file, nil
	}
	return withRule(file, longest(c.opts.Mirrors(), repository)), nil
}

func findRegistry(sys *types.SystemContext, repository string) (*sysregistriesv2.Registry, error) {
	registry, err := sysregistriesv2.FindRegistry(sys, repository)
	if err != nil {
		return nil, faultf(KindDenied, "read the registries configuration: %w", err)
	}
	return registry, nil
}

// longest returns the rule with the longest source that a repository lies in.
func longest(rules []MirrorRule, repository string) *MirrorRule {
	var best *MirrorRule
	for i := range rules {
		if within(repository, rules[i].Source) >= 0 && (best == nil || len(rules[i].Source) > len(best.Source)) {
			best = &rules[i]
		}
	}
	return best
}

// withRule adds a rule to what registries.conf says about the same name.
func withRule(file *sysregistriesv2.Registry, rule *MirrorRule) *sysregistriesv2.Registry {
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
	if rest := within(rule.Source, file.Prefix); rest >= 0 && file.Location != "" && merged.Location != "" {
		merged.Location = file.Location + rule.Source[rest:]
	}
	if file.Prefix == rule.Source {
		merged.Location = file.Location
		merged.Mirrors = append(merged.Mirrors, mirrorsOf(file)...)
	}

	return &merged
}

// mirrorsOf returns the mirrors of an entry, each with the restriction that the entry may
// have for all of them.
func mirrorsOf(registry *sysregistriesv2.Registry) []sysregistriesv2.Endpoint {
	mirrors := slices.Clone(registry.Mirrors)
	for i := range mirrors {
		if registry.MirrorByDigestOnly {
			mirrors[i].PullFromMirror = sysregistriesv2.MirrorByDigestOnly
		}
	}
	return mirrors
}

// endpointsOf returns the places of an entry that are for a name.
func endpointsOf(registry *sysregistriesv2.Registry, n name) []sysregistriesv2.Endpoint {
	unwanted := sysregistriesv2.MirrorByDigestOnly
	if n.digest != "" {
		unwanted = sysregistriesv2.MirrorByTagOnly
	}

	endpoints := slices.DeleteFunc(mirrorsOf(registry), func(mirror sysregistriesv2.Endpoint) bool {
		return mirror.PullFromMirror == unwanted
	})
	return append(endpoints, registry.Endpoint)
}

// within tells how many characters of a repository's name a prefix of registries.conf
// covers, -1 when the repository does not lie in it.
func within(repository, prefix string) int {
	if domain, ok := strings.CutPrefix(prefix, "*."); ok {
		host, _, _ := strings.Cut(repository, "/")
		at := strings.Index(host, "."+domain)
		if at < 0 {
			return -1
		}
		return boundary(repository, at+1+len(domain))
	}

	if !strings.HasPrefix(repository, prefix) {
		return -1
	}
	return boundary(repository, len(prefix))
}

// boundary returns n if a prefix of so many characters ends where a part of the name does.
func boundary(repository string, n int) int {
	if n == len(repository) || repository[n] == '/' || repository[n] == ':' {
		return n
	}
	return -1
}

// rewrite returns the name that an image has in another place.
func rewrite(n name, prefix, location string) (name, error) {
	covered := within(n.repository(), prefix)
	if location == "" || covered < 0 {
		return n, nil
	}

	version := ":" + n.tag
	if n.digest != "" {
		version = "@" + n.digest.String()
	}

	rest := n.repository()[covered:]
	if strings.HasPrefix(rest, ":") {
		rest = "/" + n.path // The prefix is a host, and stands for each of its ports.
	}

	text := location + rest
	there, err := parseReference(text + version)
	if err == nil && there.repository() != text {
		err = fmt.Errorf("it names no registry, but an image of %s", there.domain)
	}
	if err != nil {
		return name{}, faultf(KindDenied, "the registries configuration leads from %s to %q: %w", prefix, location, err)
	}

	return there, nil
}

// CheckSource tells what is wrong with the source of a rule, nil when nothing is.
func CheckSource(source string) error {
	domain, wildcard := strings.CutPrefix(source, "*.")
	if !wildcard {
		return CheckLocation(source)
	}
	if strings.ContainsAny(domain, "/:*[]") {
		return errors.New("a wildcard stands for hosts only: write it as *.example.com")
	}
	return CheckLocation(domain)
}

// CheckLocation tells what is wrong with the location of a mirror, nil when nothing is.
func CheckLocation(location string) error {
	if strings.Contains(location, "://") {
		return errors.New("it is an address: leave out what stands before the host")
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

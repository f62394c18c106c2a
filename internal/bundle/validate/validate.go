// Package validate tells the author of a bundle everything that is wrong with it, and
// what could be better, in the words that the tools of the field use: its format, its
// content, and further rules that are asked for by name.
//
// It is pure, and it judges only what the author wrote: whether a bundle can be installed
// on some cluster is the business of those who install it.
package validate

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// Level says how bad a finding is.
type Level string

// Levels of a finding.
const (
	// Error: the bundle is not valid.
	Error Level = "Error"
	// Warning: the author should know.
	Warning Level = "Warning"
)

// Finding is something that is wrong, or could be better.
type Finding struct {
	Level Level
	// Validator is the set of rules that it is about: Format, Content, or the name of an
	// optional validator.
	Validator string
	// Text says it.
	Text string
}

// Findings are in the order of the files and rules.
type Findings []Finding

func (f Findings) valid() bool {
	return !slices.ContainsFunc(f, func(finding Finding) bool { return finding.Level == Error })
}

// Err returns all errors as one, and nil if there are none.
func (f Findings) Err() error {
	invalid := &InvalidError{}
	for _, finding := range f {
		if finding.Level == Error {
			invalid.Texts = append(invalid.Texts, finding.Text)
			invalid.Format = invalid.Format || finding.Validator == Format
		}
	}

	if len(invalid.Texts) == 0 {
		return nil
	}
	return invalid
}

// InvalidError is a bundle that is not valid.
type InvalidError struct {
	// Texts say why, at least one.
	Texts []string
	// Format tells that it is the format that is not valid. The content was not looked at.
	Format bool
}

func (e *InvalidError) Error() string {
	return "Bundle validation errors: " + strings.Join(e.Texts, ",")
}

// Sets of rules that every bundle is held to.
const (
	Format  = "format"
	Content = "content"
)

// Options are what the rules need to know beside the bundle.
type Options struct {
	// Optional names validators to hold the bundle to as well, of those that Optional
	// gives. Names that are not known are passed over, as they always were.
	Optional []string
	// Categories are an author's own, in place of the standard ones. Nil means none.
	Categories *Categories
	// KubeVersion is a version of Kubernetes that the bundle is to run on, such as 1.25.
	// When unset, APIs that a version does not serve are worth a warning only.
	KubeVersion string
	// ContainerTools is what the field's multiarch validator inspects images with: docker
	// or podman. Ours needs neither, and only refuses another value.
	ContainerTools string
	// Inspect tells what images are there for, to the multiarch validator only. What it
	// does not tell of is passed over; nil tells of none.
	Inspect func(images []string) map[string]Inspection
}

// Categories are an author's own categories: a JSON document {"categories": [...]}.
type Categories struct {
	// Name of the file, for errors.
	Name string
	Data []byte
	// Err says why the file cannot be read.
	Err error
}

// Bundle holds the bundle in the root of fsys to all rules. As with the tools of the field,
// the content of a bundle whose format is not valid is not looked at. The error is about
// fsys, or about what no bundle may exceed.
func Bundle(fsys fs.FS, options Options) (Findings, error) {
	files, err := bundle.ReadFiles(fsys)
	if err != nil {
		return nil, err
	}

	findings := CheckFormat(files)
	if findings.valid() {
		findings = append(findings, CheckContent(files, options)...)
	}
	if findings.valid() {
		findings = append(findings, checkLoad(files)...)
	}

	return findings, nil
}

// checkLoad loads a bundle as everybody who uses it does: none is valid that cannot be loaded.
func checkLoad(files *bundle.Files) Findings {
	mediaType, err := bundle.DetectMediaType(files.Manifests, bundle.FolderManifests)
	if err != nil || mediaType != bundle.MediaType {
		return nil // a Helm chart, or manifests without a CSV
	}

	loaded, err := files.Load(nil)
	if err == nil {
		_, err = loaded.FBC("", bundle.WithMetadata)
	}
	if err != nil {
		return Findings{{Error, Content, err.Error()}}
	}

	return nil
}

// validators are the rules that are asked for by name.
var validators = []struct {
	Validator
	check func(*subject, Options, *findings)
}{
	{Validator{"alpha-deprecated-apis", "APIs that a version of Kubernetes no longer serves"}, checkRemovedAPIs},
	{Validator{"bundle", "what the CSV names, the bundle holds, and the size of all"}, checkBundle},
	{Validator{"bundle-objects", "objects that get in the way of others on the cluster"}, checkObjects},
	{Validator{"community", "what OpenShift asks of bundles that use APIs which Kubernetes 1.22 removed"}, checkCommunity},
	{Validator{"good-practices", "what most operators do: requests, descriptions, names"}, checkPractices},
	{Validator{"multiarch", "platforms: labels of the CSV, images (read from their registries) and node affinity"}, checkMultiarch},
	{Validator{"operatorhub", "what operatorhub.io asks for (deprecated: use the next three)"}, checkOperatorHub},
	{Validator{"operatorhub/v2", "what operatorhub.io asks for, without the two below"}, checkOperatorHubV2},
	{Validator{"standardcapabilities", "the level of capabilities is one of the five"}, checkCapabilities},
	{Validator{"standardcategories", "the categories are standard ones, or an author's own"}, checkCategories},
}

// Validator is a set of rules that is asked for by name.
type Validator struct {
	Name string
	// About says what it looks at.
	About string
}

// Optional returns the optional validators, sorted by their names.
func Optional() []Validator {
	var list []Validator
	for _, v := range validators {
		list = append(list, v.Validator)
	}
	return list
}

// ParseOptional reads a list of names with commas between them.
func ParseOptional(text string) []string {
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// subject is a bundle, decoded as far as it can be.
type subject struct {
	files       *bundle.Files
	annotations map[string]string
	// csv is nil when there is none, or none that can be decoded.
	csv *v1alpha1.ClusterServiceVersion
	// csvContent is the CSV as it was written.
	csvContent map[string]any
	crds       []*crdDocument
	objects    []object
}

// checkOptional holds the bundle to the rules that are asked for.
func (s *subject) checkOptional(options Options, found *findings) {
	for _, v := range validators {
		if slices.Contains(options.Optional, v.Name) {
			found.validator = v.Name
			v.check(s, options, found)
		}
	}
}

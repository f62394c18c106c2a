// Package validate reports everything that is wrong with a bundle to its author, and what
// could be improved, with the messages of existing tools. It checks the format, the
// content, and optional rules that are selected by name.
//
// It has no side effects, and it checks only what the author wrote. Whether a bundle can be
// installed on a cluster is checked at installation.
package validate

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// Level is the severity of a finding.
type Level string

// Levels of a finding.
const (
	// Error means that the bundle is not valid.
	Error Level = "Error"
	// Warning means that the bundle is valid but should be improved.
	Warning Level = "Warning"
)

// Finding is a problem of a bundle, or a suggestion.
type Finding struct {
	Level Level
	// Validator is the set of rules of the finding: Format, Content, or the name of an
	// optional validator.
	Validator string
	// Text is the message.
	Text string
}

// Findings are in the order of the files and rules.
type Findings []Finding

func (f Findings) hasNoErrors() bool {
	return !slices.ContainsFunc(f, func(finding Finding) bool { return finding.Level == Error })
}

// Err returns all errors as one [InvalidError], or nil if there are none.
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

// InvalidError is the error of a bundle that is not valid.
type InvalidError struct {
	// Texts are the messages, at least one.
	Texts []string
	// Format is set if the format is not valid. The content was not checked in that case.
	Format bool
}

func (e *InvalidError) Error() string {
	return "Bundle validation errors: " + strings.Join(e.Texts, ",")
}

// Validators that check every bundle.
const (
	Format  = "format"
	Content = "content"
)

// Options configure the validators.
type Options struct {
	// Optional names additional validators, among those that function Optional returns.
	// Unknown names are ignored.
	Optional []string
	// IsImage means that the bundle is an image, whose labels are Labels.
	IsImage bool
	Labels  map[string]string
	// Categories are custom categories in place of the standard ones. Nil means none.
	Categories *Categories
	// KubeVersion is a version of Kubernetes on which the bundle is to run, such as 1.25.
	// When it is empty, removed APIs are only warnings.
	KubeVersion string
	// ContainerTools is the tool with which the original multiarch validator inspects
	// images: docker or podman. This one needs neither, and only rejects other values.
	ContainerTools string
	// Inspect returns the platforms of images for the multiarch validator. Images that it
	// does not return are not checked. Nil means that no images are checked.
	Inspect func(images []string) map[string]Inspection
}

// Categories are custom categories: a JSON document {"categories": [...]}.
type Categories struct {
	// Name is the name of the file, for errors.
	Name string
	Data []byte
	// Err is the reason why the file cannot be read.
	Err error
}

// Bundle validates the bundle in the root of fsys. As in existing tools, the content of a
// bundle with an invalid format is not checked. It returns an error of fsys, or of the
// limits of a bundle.
func Bundle(fsys fs.FS, options Options) (Findings, error) {
	files, err := bundle.ReadFiles(fsys)
	if err != nil {
		return nil, err
	}

	findings := CheckFormat(files)
	if options.IsImage && findings.hasNoErrors() {
		findings = append(findings, checkLabels(files, options.Labels)...)
	}
	if findings.hasNoErrors() {
		findings = append(findings, CheckContent(files, options)...)
	}
	if findings.hasNoErrors() {
		findings = append(findings, checkLoad(files)...)
	}

	return findings, nil
}

// checkLoad loads the bundle, because a bundle that cannot be loaded is not valid.
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

// validators are the optional validators, sorted by name.
var validators = []struct {
	Validator
	check func(*decodedBundle, Options, *findings)
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

// Validator is a set of rules that is selected by name.
type Validator struct {
	Name string
	// About is a short description.
	About string
}

// Optional returns the optional validators, sorted by name.
func Optional() []Validator {
	var list []Validator
	for _, v := range validators {
		list = append(list, v.Validator)
	}
	return list
}

// ParseOptional parses a list of names with commas between them.
func ParseOptional(text string) []string {
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// decodedBundle is a bundle, decoded as far as possible.
type decodedBundle struct {
	files       *bundle.Files
	annotations map[string]string
	// csv is nil when there is none, or none that can be decoded.
	csv *v1alpha1.ClusterServiceVersion
	// csvContent is the CSV as written.
	csvContent map[string]any
	crds       []*crdDocument
	objects    []manifestObject
}

// checkOptional runs the selected optional validators.
func (s *decodedBundle) checkOptional(options Options, found *findings) {
	for _, v := range validators {
		if slices.Contains(options.Optional, v.Name) {
			found.validator = v.Name
			v.check(s, options, found)
		}
	}
}

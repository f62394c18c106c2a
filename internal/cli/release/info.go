package release

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/internal/action/releases"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/template"
)

// Output formats that only releases have.
const (
	formatDigest   = "digest"
	formatPullSpec = "pullspec"
	formatJSONPath = "jsonpath="
	formatTemplate = "template="
)

// infoFlags are the flags of info.
type infoFlags struct {
	pullSpecs, commits, commitURLs, sizes, verify, contents bool
	imageFor                                                string
	trust                                                   releases.Trust
	out                                                     terminal.Output
}

func newInfoCommand(session *kube.Session) *cobra.Command {
	var (
		source releases.Source
		flags  infoFlags
	)
	cmd := &cobra.Command{
		Use:   "info [IMAGE|VERSION] [IMAGE|VERSION]",
		Short: "Show a release or the differences between two releases",
		Long: `Show the content of a release, or the differences between two releases.

A version is looked up in the cluster first: in the current release, the update history and the
available updates. It is then looked up in the channels fast, stable and candidate of the update
service (--upstream, or the update service of the cluster). Without an argument, the release of the
cluster is shown.`,
		Example: `  # Show a release
  mainstay release info registry.example.com/releases:1.1.0

  # Show the commits that the images were built from
  mainstay release info registry.example.com/releases:1.1.0 --commits

  # Show the pull spec of one image
  mainstay release info registry.example.com/releases:1.1.0 --image-for console

  # Print the output of a Go template
  mainstay release info registry.example.com/releases:1.1.0 -o 'template={{range .references.spec.tags}}{{.name}} {{.from.name}}{{"\n"}}{{end}}'

  # Compare two releases
  mainstay release info registry.example.com/releases:1.0.0 registry.example.com/releases:1.1.0`,
		Args: terminal.MaximumArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return runReleaseDiff(cmd, releases.Diff{Source: source, From: args[0], To: args[1]}, &diffFlags{out: flags.out})
			}
			if flags.contents {
				return printReleaseContents(cmd, &releases.Extract{Source: source, Image: firstArgument(args)})
			}
			if flags.imageFor != "" {
				return printImagePullSpec(cmd, &releases.FindImage{Source: source, Image: firstArgument(args), Name: flags.imageFor})
			}

			info := releases.Info{Source: source, Image: firstArgument(args), Sizes: flags.sizes}
			if flags.verify {
				info.Verify = &flags.trust
			}

			found, err := info.Run(cmd.Context())
			if err != nil {
				return err
			}

			return printRelease(session, cmd.OutOrStdout(), found, &flags)
		},
	}

	addReleaseSourceFlags(session, cmd, &source)
	set := cmd.Flags()
	set.BoolVar(&flags.pullSpecs, "pullspecs", false, "show the pull specs of the images")
	set.BoolVar(&flags.commits, "commits", false, "show the commits that the images were built from")
	set.BoolVar(&flags.commitURLs, "commit-urls", false, "show the URLs of these commits")
	set.BoolVar(&flags.sizes, "size", false, "show the sizes of the images")
	set.BoolVar(&flags.contents, "contents", false, "show all manifests")
	set.StringVar(&flags.imageFor, "image-for", "", "show only the pull spec of the image with this name")
	set.BoolVar(&flags.verify, "verify", false, "warn if the release does not have the signatures that --keyring, --key or --trust-release require")
	addTrustFlags(cmd, &flags.trust)
	rejectCloneFlags(cmd)
	flags.out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName, formatDigest, formatPullSpec, formatJSONPath, formatTemplate)
	terminal.ValidateFlag(cmd, "output", func() error { return validateExpression(flags.out.Format) })
	cmd.MarkFlagsMutuallyExclusive("pullspecs", "commits", "commit-urls", "size", "contents", "image-for", "output")

	return cmd
}

// printReleaseContents prints all manifests of a release.
func printReleaseContents(cmd *cobra.Command, extract *releases.Extract) error {
	files, err := extract.Contents(cmd.Context())
	if err != nil {
		return err
	}

	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(cmd.OutOrStdout(), "# %s\n%s\n", name, files[name])
	}
	return nil
}

// diffFlags are the flags of diff.
type diffFlags struct {
	manifests, changelog bool
	out                  terminal.Output
}

func newDiffCommand(session *kube.Session) *cobra.Command {
	var (
		diff  releases.Diff
		shown diffFlags
	)
	cmd := &cobra.Command{
		Use:   "diff FROM TO",
		Short: "Show the differences between two releases",
		Example: `  # Compare two releases
  mainstay release diff registry.example.com/releases:1.0.0 registry.example.com/releases:1.1.0

  # Include the changed lines of each manifest
  mainstay release diff 1.0.0 1.1.0 --manifests

  # Print a changelog in Markdown
  mainstay release diff 1.0.0 1.1.0 --changelog`,
		Args: terminal.ExactArgs("FROM", "TO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			diff.From, diff.To = args[0], args[1]
			return runReleaseDiff(cmd, diff, &shown)
		},
	}

	addReleaseSourceFlags(session, cmd, &diff.Source)
	cmd.Flags().BoolVar(&shown.manifests, "manifests", false, "show the changed lines of each manifest; values of Secrets are hidden")
	cmd.Flags().BoolVar(&shown.changelog, "changelog", false, "print the changed sources in Markdown, with links to the commits in between")
	shown.out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)
	cmd.MarkFlagsMutuallyExclusive("manifests", "changelog", "output")

	return cmd
}

// printRelease prints a release in the requested format.
func printRelease(session *kube.Session, w io.Writer, r *releases.Release, flags *infoFlags) error {
	switch {
	case flags.out.Format == terminal.FormatName:
		fmt.Fprintln(w, r.Metadata.Version)
		return nil
	case flags.out.Format == formatDigest:
		fmt.Fprintln(w, r.Digest)
		return nil
	case flags.out.Format == formatPullSpec:
		fmt.Fprintln(w, r.Image)
		return nil
	case strings.HasPrefix(flags.out.Format, formatJSONPath):
		return printJSONPath(w, strings.TrimPrefix(flags.out.Format, formatJSONPath), r)
	case strings.HasPrefix(flags.out.Format, formatTemplate):
		return printTemplate(w, strings.TrimPrefix(flags.out.Format, formatTemplate), r)
	case flags.out.Format != "":
		return terminal.PrintValue(w, flags.out.Format, r)
	}

	printReleaseSummary(w, r)
	headers, rows := buildImageTable(session, r, flags)
	if err := printTableSection(w, "Images", headers, rows); err != nil {
		return err
	}
	if len(r.Warnings) > 0 {
		fmt.Fprintln(w)
	}

	for _, warning := range r.Warnings {
		fmt.Fprintln(w, "warning: "+warning)
	}

	return nil
}

// toJSONDocument returns a value as templates see it: as the decoded form of its JSON.
func toJSONDocument(value any) (any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var document any
	return document, kjson.UnmarshalCaseSensitivePreserveInts(data, &document)
}

// validateExpression returns an error if the format contains a JSONPath expression or a template that cannot be parsed.
func validateExpression(format string) error {
	var err error
	if text, ok := strings.CutPrefix(format, formatJSONPath); ok {
		_, err = parseJSONPath(text)
	} else if text, ok := strings.CutPrefix(format, formatTemplate); ok {
		_, err = parseTemplate(text)
	}
	return err
}

// parseJSONPath parses a JSONPath expression, as in kubectl.
func parseJSONPath(text string) (*jsonpath.JSONPath, error) {
	path := jsonpath.New("output")
	if err := path.Parse(text); err != nil {
		return nil, &terminal.UsageError{Err: fmt.Errorf("parsing JSONPath %q: %w", text, err)}
	}
	return path, nil
}

// parseTemplate parses a Go template, as in kubectl.
func parseTemplate(text string) (*template.Template, error) {
	parsed, err := templateLanguage.Parse("output", text)
	if err != nil {
		return nil, &terminal.UsageError{Err: fmt.Errorf("parsing the template: %w", err)}
	}
	return parsed, nil
}

// printJSONPath prints the result of a JSONPath expression, as in kubectl, for a value.
func printJSONPath(w io.Writer, text string, value any) error {
	document, err := toJSONDocument(value)
	if err != nil {
		return err
	}

	path, err := parseJSONPath(text)
	if err != nil {
		return err
	}
	if err := path.Execute(w, document); err != nil {
		return fmt.Errorf("executing JSONPath %q: %w", text, err)
	}

	return nil
}

// templateLanguage is the subset of Go templates that --output template= accepts.
var templateLanguage = template.Language{Documents: true, Functions: []string{
	"and", "eq", "index", "len", "ne", "not", "or", "print", "printf", "println", "slice",
}}

// printTemplate prints the result of a Go template, as in kubectl, for a value.
func printTemplate(w io.Writer, text string, value any) error {
	document, err := toJSONDocument(value)
	if err != nil {
		return err
	}

	parsed, err := parseTemplate(text)
	if err != nil {
		return err
	}

	result, err := parsed.Execute(document)
	if err != nil {
		return fmt.Errorf("executing the template: %w", err)
	}

	_, err = io.WriteString(w, result)
	return err
}

// printReleaseSummary prints a release without its images.
func printReleaseSummary(w io.Writer, r *releases.Release) {
	for _, line := range summarizeRelease(r) {
		fmt.Fprintf(w, "%-16s%s\n", line[0]+":", line[1])
	}

	if r.Verified != nil && *r.Verified {
		fmt.Fprintf(w, "%-16s%s\n", "Signed:", "Yes")
	}

	fmt.Fprintf(w, "\nPull From: %s\n", r.Image)
	fmt.Fprintf(w, "\nRelease Metadata:\n  Version:  %s\n  Upgrades: %s\n", r.Metadata.Version, textOrNone(strings.Join(sortVersions(r.Metadata.Previous), ", ")))
	if len(r.Metadata.Metadata) > 0 {
		fmt.Fprintln(w, "  Metadata:")
	}

	for _, key := range slices.Sorted(maps.Keys(r.Metadata.Metadata)) {
		fmt.Fprintf(w, "    %s: %s\n", key, r.Metadata.Metadata[key])
	}

	if len(r.Components) == 0 {
		return
	}

	fmt.Fprintln(w, "\nComponent Versions:")
	names := slices.Sorted(maps.Keys(r.Components))
	width := 0
	for _, name := range names {
		width = max(width, len(name))
	}

	for _, name := range names {
		component := r.Components[name]
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %-*s %s %s", width, name, component.Version, component.Title), " "))
	}
}

// summarizeRelease returns the names and values of the first lines of a release summary.
func summarizeRelease(r *releases.Release) [][2]string {
	return [][2]string{
		{"Name", r.Metadata.Version}, {"Digest", r.Digest}, {"Created", r.Created.UTC().Format(time.RFC3339)}, {"OS/Arch", r.Config.OS + "/" + r.Config.Architecture},
		{"Manifests", strconv.Itoa(r.Manifests)}, {"Metadata files", strconv.Itoa(r.MetadataFiles)},
	}
}

// sortVersions returns semantic versions in ascending order.
func sortVersions(versions []string) []string {
	return slices.SortedFunc(slices.Values(versions), func(a, b string) int {
		left, errLeft := semver.Parse(a)
		right, errRight := semver.Parse(b)
		if errLeft != nil || errRight != nil {
			return strings.Compare(a, b)
		}
		return left.Compare(right)
	})
}

// buildImageTable returns the table of images with the requested columns.
func buildImageTable(session *kube.Session, r *releases.Release, flags *infoFlags) (headers []string, rows [][]string) {
	var row func(releases.ReleaseImage) []string
	switch {
	case flags.pullSpecs:
		headers, row = []string{"NAME", "PULL SPEC"}, func(i releases.ReleaseImage) []string { return []string{i.PullSpec} }
	case flags.commits:
		headers, row = []string{"NAME", "REPO", "COMMIT"}, func(i releases.ReleaseImage) []string { return []string{i.Repository, i.Commit} }
	case flags.commitURLs:
		headers, row = []string{"NAME", "URL"}, func(i releases.ReleaseImage) []string { return []string{commitURL(i)} }
	case flags.sizes:
		headers, row = []string{"NAME", "AGE", "LAYERS", "SIZE MB", "UNIQUE MB"}, func(i releases.ReleaseImage) []string { return formatSizeColumns(session, i) }
	default:
		headers, row = []string{"NAME", "DIGEST"}, func(i releases.ReleaseImage) []string { return []string{i.Digest} }
	}

	for _, image := range r.Images {
		rows = append(rows, append([]string{image.Name}, row(image)...))
	}
	return headers, rows
}

func formatSizeColumns(session *kube.Session, image releases.ReleaseImage) []string {
	age := ""
	if created := image.Size.Created; created.Unix() > 0 {
		age = duration.HumanDuration(session.Now().Sub(created).Truncate(time.Second))
	}
	megabytes := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }
	return []string{age, strconv.Itoa(image.Size.Layers), megabytes(image.Size.Bytes), megabytes(image.Size.Unique)}
}

// printTableSection prints a table under a heading. It prints nothing if there are no rows.
func printTableSection(w io.Writer, heading string, headers []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}

	fmt.Fprintf(w, "\n%s:\n", heading)
	var table bytes.Buffer
	if err := terminal.PrintTable(&table, headers, rows); err != nil {
		return err
	}

	for line := range strings.Lines(table.String()) {
		fmt.Fprint(w, "  "+line)
	}

	return nil
}

func runReleaseDiff(cmd *cobra.Command, diff releases.Diff, flags *diffFlags) error {
	compared, err := diff.Run(cmd.Context())
	if err != nil {
		return err
	}

	w := cmd.OutOrStdout()
	switch {
	case flags.out.Format == terminal.FormatJSON, flags.out.Format == terminal.FormatYAML:
		return terminal.PrintValue(w, flags.out.Format, compared)
	case flags.changelog:
		printChangelog(w, compared)
		return nil
	case compared.Identical():
		fmt.Fprintln(w, "Releases are identical")
		return nil
	default:
		return printReleaseComparison(w, compared, flags.manifests)
	}
}

// printReleaseComparison prints the differences between two releases.
func printReleaseComparison(w io.Writer, c *releases.Comparison, manifests bool) error {
	var rows [][]string
	before, after := summarizeRelease(c.From), summarizeRelease(c.To)
	for i := range before {
		rows = append(rows, []string{before[i][0] + ":", before[i][1], after[i][1]})
	}

	if err := terminal.PrintTable(w, []string{"", "FROM", "TO"}, rows); err != nil {
		return err
	}

	upgrade := "No"
	if c.UpgradeFrom {
		upgrade = "Yes"
	}

	fmt.Fprintf(w, "\nUpgrade From: %s\n", upgrade)
	rows = nil
	for _, change := range c.Components {
		rows = append(rows, []string{change.Name, textOrNone(change.From), textOrNone(change.To)})
	}

	if err := printTableSection(w, "Component Versions", []string{"NAME", "FROM", "TO"}, rows); err != nil {
		return err
	}

	for _, block := range []struct{ heading, change string }{
		{"Images Changed", releases.ImageChanged}, {"Images Rebuilt", releases.ImageRebuilt},
		{"Images Added", releases.ImageAdded}, {"Images Removed", releases.ImageRemoved},
	} {
		if err := printImageChanges(w, block.heading, block.change, c.Images); err != nil {
			return err
		}
	}

	rows = nil
	for _, change := range c.Metadata {
		rows = append(rows, []string{change.Key, textOrNone(change.From), textOrNone(change.To)})
	}

	if err := printTableSection(w, "Metadata Changed", []string{"KEY", "FROM", "TO"}, rows); err != nil {
		return err
	}

	return printManifestChanges(w, c.Manifests, manifests)
}

func printImageChanges(w io.Writer, heading, kind string, changes []releases.ImageChange) error {
	var rows [][]string
	headers := []string{"NAME", "FROM", "TO"}
	for _, change := range changes {
		switch {
		case change.Change != kind:
		case change.From == nil:
			headers, rows = []string{"NAME", "DIGEST"}, append(rows, []string{change.Name, change.To.Digest})
		case change.To == nil:
			headers, rows = []string{"NAME", "DIGEST"}, append(rows, []string{change.Name, change.From.Digest})
		default:
			rows = append(rows, []string{change.Name, change.From.Digest, change.To.Digest})
		}
	}

	return printTableSection(w, heading, headers, rows)
}

func printManifestChanges(w io.Writer, changes []releases.ManifestChange, lines bool) error {
	var rows [][]string
	for _, change := range changes {
		rows = append(rows, []string{change.File, string(change.Change.Change), change.Object()})
	}

	if err := printTableSection(w, "Manifests Changed", []string{"FILE", "CHANGE", "OBJECT"}, rows); err != nil || !lines {
		return err
	}

	for _, change := range changes {
		fmt.Fprintf(w, "\n%s: %s %s\n%s", change.File, change.Object(), change.Change.Change, change.Diff)
	}

	return nil
}

// textOrNone returns the text, or <none> if it is empty.
func textOrNone(text string) string { return cmp.Or(text, "<none>") }

package cli

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
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/template"
)

// Formats of a release beside the usual ones.
const (
	formatDigest   = "digest"
	formatPullSpec = "pullspec"
	formatJSONPath = "jsonpath="
	formatTemplate = "template="
)

// infoFlags choose what of a release is shown.
type infoFlags struct {
	pullSpecs, commits, commitURLs, sizes, verify, contents bool
	imageFor                                                string
	trust                                                   releases.Trust
	out                                                     terminal.Output
}

func (a *app) releaseInfoCommand() *cobra.Command {
	var (
		source releases.Source
		flags  infoFlags
	)
	cmd := &cobra.Command{
		Use:   "info [IMAGE|VERSION] [IMAGE|VERSION]",
		Short: "Show what a release is made of, or what two differ in",
		Long: `Show what a release is made of, or what two releases differ in.

A version is looked up in the cluster: the release that it has, has had or can be updated
to; and then in the channels fast, stable and candidate of an update service, that of
--upstream or of the cluster. Without a name it is the release of the cluster.`,
		Example: `  # Look at a release
  mainstay release info registry.example.com/releases:1.1.0

  # From which commits its images were built
  mainstay release info registry.example.com/releases:1.1.0 --commits

  # Where one of its images is
  mainstay release info registry.example.com/releases:1.1.0 --image-for console

  # As a script wants it
  mainstay release info registry.example.com/releases:1.1.0 -o 'template={{range .references.spec.tags}}{{.name}} {{.from.name}}{{"\n"}}{{end}}'

  # What changes from one release to the other
  mainstay release info registry.example.com/releases:1.0.0 registry.example.com/releases:1.1.0`,
		Args: terminal.TakesUpTo(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return runDiff(cmd, releases.Diff{Source: source, From: args[0], To: args[1]}, &diffFlags{out: flags.out})
			}
			if flags.contents {
				return printContents(cmd, &releases.Extract{Source: source, Image: argument(args)})
			}
			if flags.imageFor != "" {
				return printImage(cmd, &releases.FindImage{Source: source, Image: argument(args), Name: flags.imageFor})
			}

			info := releases.Info{Source: source, Image: argument(args), Sizes: flags.sizes}
			if flags.verify {
				info.Verify = &flags.trust
			}

			found, err := info.Run(cmd.Context())
			if err != nil {
				return err
			}

			return a.printRelease(cmd.OutOrStdout(), found, &flags)
		},
	}

	a.bindSource(cmd, &source)
	set := cmd.Flags()
	set.BoolVar(&flags.pullSpecs, "pullspecs", false, "show where the images are")
	set.BoolVar(&flags.commits, "commits", false, "show from which commits the images were built")
	set.BoolVar(&flags.commitURLs, "commit-urls", false, "show where those commits can be read")
	set.BoolVar(&flags.sizes, "size", false, "show how large the images are")
	set.BoolVar(&flags.contents, "contents", false, "show all manifests")
	set.StringVar(&flags.imageFor, "image-for", "", "show only where the image with this name is")
	set.BoolVar(&flags.verify, "verify", false, "warn if the release is not signed as --keyring, --key or --trust-release demand")
	bindTrust(cmd, &flags.trust)
	refuseClones(cmd)
	flags.out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName, formatDigest, formatPullSpec, formatJSONPath, formatTemplate)
	cmd.MarkFlagsMutuallyExclusive("pullspecs", "commits", "commit-urls", "size", "contents", "image-for", "output")

	return cmd
}

// printContents shows all manifests of a release.
func printContents(cmd *cobra.Command, extract *releases.Extract) error {
	files, err := extract.Contents(cmd.Context())
	if err != nil {
		return err
	}

	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(cmd.OutOrStdout(), "# %s\n%s\n", name, files[name])
	}
	return nil
}

// diffFlags choose how two releases are compared.
type diffFlags struct {
	manifests, changelog bool
	out                  terminal.Output
}

func (a *app) releaseDiffCommand() *cobra.Command {
	var (
		diff  releases.Diff
		shown diffFlags
	)
	cmd := &cobra.Command{
		Use:   "diff FROM TO",
		Short: "Show what two releases differ in",
		Example: `  # What changes from one release to the other
  mainstay release diff registry.example.com/releases:1.0.0 registry.example.com/releases:1.1.0

  # With the changed lines of each manifest
  mainstay release diff 1.0.0 1.1.0 --manifests

  # As a changelog
  mainstay release diff 1.0.0 1.1.0 --changelog`,
		Args: terminal.Takes("FROM", "TO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			diff.From, diff.To = args[0], args[1]
			return runDiff(cmd, diff, &shown)
		},
	}

	a.bindSource(cmd, &diff.Source)
	cmd.Flags().BoolVar(&shown.manifests, "manifests", false, "show the changed lines of each manifest; values of Secrets are hidden")
	cmd.Flags().BoolVar(&shown.changelog, "changelog", false, "write whose sources changed, in Markdown, with links to the commits in between")
	shown.out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)
	cmd.MarkFlagsMutuallyExclusive("manifests", "changelog", "output")

	return cmd
}

// printRelease shows a release.
func (a *app) printRelease(w io.Writer, r *releases.Release, flags *infoFlags) error {
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
		return printPath(w, strings.TrimPrefix(flags.out.Format, formatJSONPath), r)
	case strings.HasPrefix(flags.out.Format, formatTemplate):
		return printTemplate(w, strings.TrimPrefix(flags.out.Format, formatTemplate), r)
	case flags.out.Format != "":
		return terminal.PrintValue(w, flags.out.Format, r)
	}

	printHead(w, r)
	headers, rows := a.imageTable(r, flags)
	if err := printSection(w, "Images", headers, rows); err != nil {
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

// documentOf returns a value as templates see it: as its JSON has it.
func documentOf(value any) (any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var document any
	return document, kjson.UnmarshalCaseSensitivePreserveInts(data, &document)
}

// printPath shows what a JSONPath, as kubectl has them, finds in a value.
func printPath(w io.Writer, text string, value any) error {
	document, err := documentOf(value)
	if err != nil {
		return err
	}

	path := jsonpath.New("output")
	if err := path.Parse(text); err != nil {
		return &terminal.UsageError{Err: fmt.Errorf("the JSONPath %q cannot be read: %w", text, err)}
	}
	if err := path.Execute(w, document); err != nil {
		return fmt.Errorf("the JSONPath %q finds nothing: %w", text, err)
	}

	return nil
}

// documentLanguage is what templates over documents may say.
var documentLanguage = template.Language{Documents: true, Functions: []string{
	"and", "eq", "index", "len", "ne", "not", "or", "print", "printf", "println", "slice",
}}

// printTemplate shows what a Go template, as kubectl has them, makes of a value.
func printTemplate(w io.Writer, text string, value any) error {
	document, err := documentOf(value)
	if err != nil {
		return err
	}

	parsed, err := documentLanguage.Parse("output", text)
	if err != nil {
		return &terminal.UsageError{Err: fmt.Errorf("the template cannot be read: %w", err)}
	}

	made, err := parsed.Execute(document)
	if err != nil {
		return fmt.Errorf("the template cannot be executed: %w", err)
	}

	_, err = io.WriteString(w, made)
	return err
}

// printHead shows a release without its images.
func printHead(w io.Writer, r *releases.Release) {
	for _, line := range summary(r) {
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

// summary returns the first lines about a release.
func summary(r *releases.Release) [][2]string {
	return [][2]string{
		{"Name", r.Metadata.Version}, {"Digest", r.Digest}, {"Created", r.Created.UTC().Format(time.RFC3339)}, {"OS/Arch", r.Config.OS + "/" + r.Config.Architecture},
		{"Manifests", strconv.Itoa(r.Manifests)}, {"Metadata files", strconv.Itoa(r.MetadataFiles)},
	}
}

// sortVersions sorts semantic versions, the lowest first.
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

// imageTable returns what is asked for of the images.
func (a *app) imageTable(r *releases.Release, flags *infoFlags) (headers []string, rows [][]string) {
	var row func(releases.ReleaseImage) []string
	switch {
	case flags.pullSpecs:
		headers, row = []string{"NAME", "PULL SPEC"}, func(i releases.ReleaseImage) []string { return []string{i.PullSpec} }
	case flags.commits:
		headers, row = []string{"NAME", "REPO", "COMMIT"}, func(i releases.ReleaseImage) []string { return []string{i.Repository, i.Commit} }
	case flags.commitURLs:
		headers, row = []string{"NAME", "URL"}, func(i releases.ReleaseImage) []string { return []string{commitURL(i)} }
	case flags.sizes:
		headers, row = []string{"NAME", "AGE", "LAYERS", "SIZE MB", "UNIQUE MB"}, a.sizeColumns
	default:
		headers, row = []string{"NAME", "DIGEST"}, func(i releases.ReleaseImage) []string { return []string{i.Digest} }
	}

	for _, image := range r.Images {
		rows = append(rows, append([]string{image.Name}, row(image)...))
	}
	return headers, rows
}

func (a *app) sizeColumns(image releases.ReleaseImage) []string {
	age := ""
	if made := image.Size.Created; made.Unix() > 0 {
		age = duration.HumanDuration(a.now().Sub(made).Truncate(time.Second))
	}
	megabytes := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }
	return []string{age, strconv.Itoa(image.Size.Layers), megabytes(image.Size.Bytes), megabytes(image.Size.Unique)}
}

// printSection shows a table under a heading, if it has rows.
func printSection(w io.Writer, heading string, headers []string, rows [][]string) error {
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

func runDiff(cmd *cobra.Command, diff releases.Diff, flags *diffFlags) error {
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
		return printComparison(w, compared, flags.manifests)
	}
}

// printComparison shows what two releases differ in.
func printComparison(w io.Writer, c *releases.Comparison, manifests bool) error {
	var rows [][]string
	before, after := summary(c.From), summary(c.To)
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

	if err := printSection(w, "Component Versions", []string{"NAME", "FROM", "TO"}, rows); err != nil {
		return err
	}

	for _, block := range []struct{ heading, change string }{
		{"Images Changed", releases.ImageChanged}, {"Images Rebuilt", releases.ImageRebuilt},
		{"Images Added", releases.ImageAdded}, {"Images Removed", releases.ImageRemoved},
	} {
		if err := printImages(w, block.heading, block.change, c.Images); err != nil {
			return err
		}
	}

	rows = nil
	for _, change := range c.Metadata {
		rows = append(rows, []string{change.Key, textOrNone(change.From), textOrNone(change.To)})
	}

	if err := printSection(w, "Metadata Changed", []string{"KEY", "FROM", "TO"}, rows); err != nil {
		return err
	}

	return printManifests(w, c.Manifests, manifests)
}

func printImages(w io.Writer, heading, kind string, changes []releases.ImageChange) error {
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

	return printSection(w, heading, headers, rows)
}

func printManifests(w io.Writer, changes []releases.ManifestChange, lines bool) error {
	var rows [][]string
	for _, change := range changes {
		rows = append(rows, []string{change.File, string(change.Change.Change), change.Object()})
	}

	if err := printSection(w, "Manifests Changed", []string{"FILE", "CHANGE", "OBJECT"}, rows); err != nil || !lines {
		return err
	}

	for _, change := range changes {
		fmt.Fprintf(w, "\n%s: %s %s\n%s", change.File, change.Object(), change.Change.Change, change.Diff)
	}

	return nil
}

// textOrNone shows that there is no text.
func textOrNone(text string) string { return cmp.Or(text, "<none>") }

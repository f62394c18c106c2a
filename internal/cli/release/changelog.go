package release

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/releases"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// errChangelogNotSupported is returned for flags that build a changelog from clones of the sources.
var errChangelogNotSupported = errors.New("a release contains neither commit messages nor bugs, and source repositories are not cloned: 'mainstay release diff FROM TO --changelog' lists the changed sources with links to their commits")

// rejectCloneFlags adds the flags --changelog and --bugs of other tools, hidden, and fails with a hint
// if one of them is set.
func rejectCloneFlags(cmd *cobra.Command) {
	for _, name := range []string{"changelog", "bugs"} {
		cmd.Flags().String(name, "", "not supported: see mainstay release diff --changelog")
		_ = cmd.Flags().MarkHidden(name)
	}

	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("changelog") || cmd.Flags().Changed("bugs") {
			return &terminal.UsageError{Err: errChangelogNotSupported}
		}
		return nil
	}
}

// printChangelog prints the changes between two releases in Markdown: the sources of the images that
// changed, with links to the commits in between.
func printChangelog(w io.Writer, c *releases.Comparison) {
	fmt.Fprintf(w, "# %s\n\nCreated: %s\n\nImage Digest: `%s`\n\n", c.To.Metadata.Version, c.To.Created.UTC().Format(time.RFC3339), c.To.Digest)
	if previous := sortVersions(c.To.Metadata.Previous); len(previous) > 0 {
		fmt.Fprintf(w, "Can be updated to from %s\n\n", strings.Join(previous, ", "))
	}

	fmt.Fprintf(w, "## Changes from %s\n", c.From.Metadata.Version)
	if c.Identical() {
		fmt.Fprint(w, "\nNone: the releases are identical.\n")
		return
	}

	printComponentChanges(w, c.Components)
	for _, block := range []struct{ heading, change string }{
		{"New images", releases.ImageAdded}, {"Removed images", releases.ImageRemoved}, {"Rebuilt images without code change", releases.ImageRebuilt},
	} {
		var lines []string
		for _, change := range c.Images {
			if change.Change == block.change {
				image := cmp.Or(change.To, change.From)
				name := strings.TrimSpace(formatMarkdownLink(change.Name, commitURL(*image)) + " " + abbreviateCommit(image.Commit))
				lines = append(lines, fmt.Sprintf("* %s `%s`", name, image.Digest))
			}
		}
		printMarkdownList(w, block.heading, lines)
	}

	for _, change := range c.Images {
		if change.Change == releases.ImageChanged {
			printMarkdownList(w, formatMarkdownLink(change.Name, sourceTreeURL(*change.To)), []string{"* " + formatCommitRange(*change.From, *change.To)})
		}
	}
}

func printComponentChanges(w io.Writer, changes []releases.ComponentChange) {
	var lines []string
	for _, change := range changes {
		switch {
		case change.From == "":
			lines = append(lines, fmt.Sprintf("* %s %s was added", change.Name, change.To))
		case change.To == "":
			lines = append(lines, fmt.Sprintf("* %s %s was removed", change.Name, change.From))
		default:
			lines = append(lines, fmt.Sprintf("* %s from %s to %s", change.Name, change.From, change.To))
		}
	}

	printMarkdownList(w, "Components", lines)
}

func printMarkdownList(w io.Writer, heading string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(w, "\n### %s\n\n%s\n", heading, strings.Join(lines, "\n"))
	}
}

// formatCommitRange returns a link to the commits between two images of a component.
func formatCommitRange(from, to releases.ReleaseImage) string {
	switch {
	case to.Repository == "" || to.Commit == "":
		return fmt.Sprintf("The image does not say from which commit it was built: `%s`", to.Digest)
	case from.Repository != to.Repository || from.Commit == "":
		return fmt.Sprintf("%s `%s`", formatMarkdownLink("Commit "+abbreviateCommit(to.Commit), commitURL(to)), to.Digest)
	default:
		return fmt.Sprintf("[Full changelog](%s/compare/%s...%s) `%s`", repositoryURL(to), from.Commit, to.Commit, to.Digest)
	}
}

func formatMarkdownLink(text, url string) string {
	if url == "" {
		return text
	}
	return "[" + text + "](" + url + ")"
}

// abbreviateCommit returns the first eight characters of a commit.
func abbreviateCommit(commit string) string { return commit[:min(len(commit), 8)] }

// repositoryURL returns the URL of the source repository of an image.
func repositoryURL(image releases.ReleaseImage) string {
	return strings.TrimSuffix(strings.TrimSuffix(image.Repository, "/"), ".git")
}

// sourceTreeURL returns the URL of the source tree that an image was built from, or "" if it is
// unknown.
func sourceTreeURL(image releases.ReleaseImage) string {
	if image.Repository == "" || image.Commit == "" {
		return ""
	}
	return repositoryURL(image) + "/tree/" + image.Commit
}

// commitURL returns the URL of the commit that an image was built from, or "" if it is unknown. The
// format is the one of GitHub.
func commitURL(image releases.ReleaseImage) string {
	if image.Repository == "" || image.Commit == "" {
		return ""
	}
	return repositoryURL(image) + "/commit/" + image.Commit
}

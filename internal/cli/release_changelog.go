package cli

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

// errNoClones is about flags by which a changelog is made of clones of the sources.
var errNoClones = errors.New("a release holds neither the messages of commits nor bugs, and no clones of sources are read: 'mainstay release diff FROM TO --changelog' lists whose sources changed, with links to their commits")

// refuseClones adds flags that scripts of the field pass, and that nothing here can do.
func refuseClones(cmd *cobra.Command) {
	for _, name := range []string{"changelog", "bugs"} {
		cmd.Flags().String(name, "", "not supported: see mainstay release diff --changelog")
		_ = cmd.Flags().MarkHidden(name)
	}

	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("changelog") || cmd.Flags().Changed("bugs") {
			return &terminal.UsageError{Err: errNoClones}
		}
		return nil
	}
}

// printChangelog writes in Markdown what changed from one release to the other, as far as the
// releases tell: the sources of their images, with links to the commits in between.
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

	printVersionChanges(w, c.Components)
	for _, block := range []struct{ heading, change string }{
		{"New images", releases.ImageAdded}, {"Removed images", releases.ImageRemoved}, {"Rebuilt images without code change", releases.ImageRebuilt},
	} {
		var lines []string
		for _, change := range c.Images {
			if change.Change == block.change {
				image := cmp.Or(change.To, change.From)
				name := strings.TrimSpace(link(change.Name, commitURL(*image)) + " " + shortCommit(image.Commit))
				lines = append(lines, fmt.Sprintf("* %s `%s`", name, image.Digest))
			}
		}
		printLines(w, block.heading, lines)
	}

	for _, change := range c.Images {
		if change.Change == releases.ImageChanged {
			printLines(w, link(change.Name, sourceURL(*change.To)), []string{"* " + compared(*change.From, *change.To)})
		}
	}
}

func printVersionChanges(w io.Writer, changes []releases.ComponentChange) {
	var lines []string
	for _, change := range changes {
		switch {
		case change.From == "":
			lines = append(lines, fmt.Sprintf("* %s %s is new", change.Name, change.To))
		case change.To == "":
			lines = append(lines, fmt.Sprintf("* %s %s is gone", change.Name, change.From))
		default:
			lines = append(lines, fmt.Sprintf("* %s from %s to %s", change.Name, change.From, change.To))
		}
	}

	printLines(w, "Components", lines)
}

func printLines(w io.Writer, heading string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(w, "\n### %s\n\n%s\n", heading, strings.Join(lines, "\n"))
	}
}

// compared leads to the commits between two images of a component.
func compared(from, to releases.ReleaseImage) string {
	switch {
	case to.Repository == "" || to.Commit == "":
		return fmt.Sprintf("The image does not say from which commit it was built: `%s`", to.Digest)
	case from.Repository != to.Repository || from.Commit == "":
		return fmt.Sprintf("%s `%s`", link("Commit "+shortCommit(to.Commit), commitURL(to)), to.Digest)
	default:
		return fmt.Sprintf("[Full changelog](%s/compare/%s...%s) `%s`", repositoryURL(to), from.Commit, to.Commit, to.Digest)
	}
}

func link(text, url string) string {
	if url == "" {
		return text
	}
	return "[" + text + "](" + url + ")"
}

// shortCommit is what people call a commit.
func shortCommit(commit string) string { return commit[:min(len(commit), 8)] }

// repositoryURL is where the source of an image can be read.
func repositoryURL(image releases.ReleaseImage) string {
	return strings.TrimSuffix(strings.TrimSuffix(image.Repository, "/"), ".git")
}

// sourceURL is where the source of an image can be read as it was built.
func sourceURL(image releases.ReleaseImage) string {
	if image.Repository == "" || image.Commit == "" {
		return ""
	}
	return repositoryURL(image) + "/tree/" + image.Commit
}

// commitURL is where a commit can be read, on the hosts that many use.
func commitURL(image releases.ReleaseImage) string {
	if image.Repository == "" || image.Commit == "" {
		return ""
	}
	return repositoryURL(image) + "/commit/" + image.Commit
}

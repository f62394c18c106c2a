package terminal

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set when a release is built:
//
//	go build -ldflags "-X github.com/mainstay-dev/mainstay/internal/cli/terminal.version=v1.2.3" ./cmd/...
var version string

// Release is the version that a release was built as, "" for other builds.
func Release() string { return version }

// Build says which build of the program this is.
type Build struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	Date      string `json:"date,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// thisBuild reads what the Go tool has written into the program.
func thisBuild() Build {
	b := Build{Version: version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}

	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.time":
			b.Date = setting.Value
		}
	}

	return b
}

// VersionCommand makes `version`. The function writes what people read.
func VersionCommand(program string, write func(io.Writer, Build)) *cobra.Command {
	var out Output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show which build this is",
		Example: "  " + program + " version\n  " + program + " version -o json",
		Args:    TakesUpTo(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out.Format != "" {
				return PrintValue(cmd.OutOrStdout(), out.Format, thisBuild())
			}
			write(cmd.OutOrStdout(), thisBuild())
			return nil
		},
	}

	out.Bind(cmd, FormatJSON, FormatYAML)
	return cmd
}

// PrintVersion writes a line for people.
func PrintVersion(w io.Writer, b Build) {
	fmt.Fprintf(w, "mainstay %s (commit %s, %s, %s)\n", orUnknown(b.Version), orUnknown(b.Commit), b.GoVersion, b.Platform)
}

// PrintOpmVersion writes the line that scripts around opm read.
func PrintOpmVersion(w io.Writer, b Build) {
	fmt.Fprintf(w, "Version: version.Version{OpmVersion:%q, GitCommit:%q, BuildDate:%q, GoOs:%q, GoArch:%q}\n",
		b.Version, b.Commit, b.Date, runtime.GOOS, runtime.GOARCH)
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// Version is the version of this program, for those who have to tell two apart.
func Version() string { return orUnknown(thisBuild().Version) }

package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set when a release is built:
//
//	go build -ldflags "-X github.com/mainstay-dev/mainstay/internal/cli.version=v1.2.3" ./cmd/...
var version string

// build says which build of the program this is.
type build struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	Date      string `json:"date,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// thisBuild reads what the Go tool has written into the program.
func thisBuild() build {
	b := build{Version: version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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

func versionCommand(program string, write func(io.Writer, build)) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show which build this is",
		Example: "  " + program + " version\n  " + program + " version -o json",
		Args:    takesUpTo(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out.format != "" {
				return printValue(cmd.OutOrStdout(), out.format, thisBuild())
			}
			write(cmd.OutOrStdout(), thisBuild())
			return nil
		},
	}
	out.bind(cmd, formatJSON, formatYAML)
	return cmd
}

func printVersion(w io.Writer, b build) {
	fmt.Fprintf(w, "mainstay %s (commit %s, %s, %s)\n", orUnknown(b.Version), orUnknown(b.Commit), b.GoVersion, b.Platform)
}

// printOpmVersion writes the line that scripts around opm read.
func printOpmVersion(w io.Writer, b build) {
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

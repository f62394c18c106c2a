package terminal

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker when a release is built:
//
//	go build -ldflags "-X github.com/mainstay-dev/mainstay/internal/cli/terminal.version=v1.2.3" ./cmd/...
var version string

// Release returns the version of a release build, or "" for other builds.
func Release() string { return version }

// Build describes a build of the program.
type Build struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	Date      string `json:"date,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// readBuildInfo returns the build information that the Go toolchain has embedded in the binary.
func readBuildInfo() Build {
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

// NewVersionCommand returns the command version. The function write prints the default format.
func NewVersionCommand(program string, write func(io.Writer, Build)) *cobra.Command {
	var out Output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of the program",
		Example: "  " + program + " version\n  " + program + " version -o json",
		Args:    MaximumArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out.Format != "" {
				return PrintValue(cmd.OutOrStdout(), out.Format, readBuildInfo())
			}
			write(cmd.OutOrStdout(), readBuildInfo())
			return nil
		},
	}

	out.AddFlag(cmd, FormatJSON, FormatYAML)
	return cmd
}

// PrintVersion writes the version as a line of text.
func PrintVersion(w io.Writer, b Build) {
	fmt.Fprintf(w, "mainstay %s (commit %s, %s, %s)\n", valueOrUnknown(b.Version), valueOrUnknown(b.Commit), b.GoVersion, b.Platform)
}

// PrintOpmVersion writes the version line in the format that scripts expect from opm.
func PrintOpmVersion(w io.Writer, b Build) {
	fmt.Fprintf(w, "Version: version.Version{OpmVersion:%q, GitCommit:%q, BuildDate:%q, GoOs:%q, GoArch:%q}\n",
		b.Version, b.Commit, b.Date, runtime.GOOS, runtime.GOARCH)
}

func valueOrUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// Version returns the version of this program, or "unknown".
func Version() string { return valueOrUnknown(readBuildInfo().Version) }

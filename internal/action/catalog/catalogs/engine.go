package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// runContainerEngine runs a container engine in a folder. Its standard output and standard
// error go to out.
func runContainerEngine(ctx context.Context, dir, tool string, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, tool, args...) //nolint:gosec // the callers know the tools
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return &report.Error{
			Object: fmt.Sprintf("Failed to exec %q", tool), Err: errors.New("it is not installed"),
			Advice: "let this program make the image without it: --push pushes it, --archive and --oci-layout write it",
		}
	}

	if err != nil {
		return fmt.Errorf("Failed to exec %#v: %w", cmd.Args, err) //nolint:staticcheck // the field's words
	}

	return nil
}

// engineBuildArguments returns the arguments that make an engine build an image from a
// Dockerfile.
func engineBuildArguments(tool, dockerfile, tag string) ([]string, error) {
	switch tool {
	case "docker":
		return []string{"build", "-f", dockerfile, "-t", tag, "."}, nil
	case "podman":
		return []string{"build", "--format", "docker", "-f", dockerfile, "-t", tag, "."}, nil
	case "buildah":
		return []string{"bud", "--format=docker", "-f", dockerfile, "-t", tag, "."}, nil
	}

	return nil, fmt.Errorf("%s is not supported image builder", tool)
}

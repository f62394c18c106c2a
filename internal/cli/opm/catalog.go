package opm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// RenderCommand makes `render`. The program is what its examples are called by.
func RenderCommand(program string) *cobra.Command {
	var (
		render catalogs.Render
		out    terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "render REF...",
		Short: "Write catalogs and bundles as a stream of file-based catalog blobs",
		Long: `Write catalogs and bundles as a stream of file-based catalog blobs. A reference is the
folder of a bundle or a file-based catalog, or else the image of either.`,
		Example: fmt.Sprintf(`  %[1]s render quay.io/operatorhubio/catalog:latest
  %[1]s render ./bundle -o yaml
  %[1]s render registry.example.com/argocd-operator:v0.6.0 -o yaml`, program),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &terminal.UsageError{Err: fmt.Errorf("requires at least 1 arg(s), only received 0")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			render.Refs = args
			render.Progress = terminal.NewProgress(cmd.ErrOrStderr())
			render.Blob = func(blob fbc.Meta) error { return PrintBlob(cmd.OutOrStdout(), out.Format, blob) }
			return render.Run(cmd.Context())
		},
	}
	BindRegistry(cmd, &render.Registry)
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

// PrintBlob writes one blob of a stream: JSON, and YAML where that is asked for.
func PrintBlob(w io.Writer, format string, blob fbc.Meta) error {
	if format == terminal.FormatYAML {
		data, err := yaml.JSONToYAML(blob.Blob)
		if err != nil {
			return fmt.Errorf("writing %s as YAML: %w", blob, err)
		}
		_, err = fmt.Fprintf(w, "---\n%s", data)
		return err
	}
	var buffer bytes.Buffer
	if err := json.Indent(&buffer, blob.Blob, "", "    "); err != nil {
		return fmt.Errorf("writing %s as JSON: %w", blob, err)
	}
	buffer.WriteByte('\n')
	_, err := buffer.WriteTo(w)
	return err
}

// ValidateCommand makes `validate`. The program is what its examples are called by.
func ValidateCommand(program string) *cobra.Command {
	return &cobra.Command{
		Use:   "validate DIR",
		Short: "Check a file-based catalog",
		Long: `Check a file-based catalog. Nothing is written and the exit code is 0 when it is valid;
else every fault is named and the exit code is 1.`,
		Example: fmt.Sprintf(`  %s validate ./catalog`, program),
		Args:    terminal.Takes("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return (&catalogs.Validate{Dir: args[0]}).Run(cmd.Context())
		},
	}
}

package opm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// NewValidateCommand returns the command validate. The examples start with program.
func NewValidateCommand(program string) *cobra.Command {
	var out outputFlag
	var strict bool
	cmd := &cobra.Command{
		Use:   "validate DIR",
		Short: "Validate a file-based catalog",
		Long: `Validate a file-based catalog. If the catalog is valid, nothing is printed and the exit code is 0.
Otherwise, all errors are printed and the exit code is 1. With --output, the result is printed as an
object.

Content that OLM loads but cannot use is a warning on the standard error, and an error with --strict:
properties without a type or a value, APIs and version ranges that are invalid, schemas of the reserved
prefix olm., and bundles that are not named NAME.vVERSION.`,
		Example: fmt.Sprintf("  %[1]s validate ./catalog\n  %[1]s validate ./catalog -o json", program),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := (&catalogs.Validate{Dir: args[0], Strict: strict, Warn: func(finding fbc.Finding) {
				cmd.PrintErrln("Warning: " + finding.String())
			}}).Run(cmd.Context())
			var faults *fbc.TreeError
			var content *fbc.Error
			if out.format == "" || err != nil && !errors.As(err, &faults) && !errors.As(err, &content) {
				return err
			}
			if failed := printValidationResult(cmd.OutOrStdout(), out.format, err); failed != nil {
				return failed
			}
			if err != nil {
				return &terminal.ExitError{Code: 1}
			}

			return nil
		},
	}

	cmd.Flags().BoolVar(&strict, "strict", false, "fail on warnings")
	out.addFlag(cmd, "", terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

// validationResult is the output of validate for --output.
type validationResult struct {
	Passed bool             `json:"passed"`
	Error  *validationError `json:"error,omitempty"`
}

type validationError struct {
	Message string `json:"message"`
}

func printValidationResult(w io.Writer, format string, err error) error {
	result := validationResult{Passed: err == nil}
	if err != nil {
		result.Error = &validationError{Message: err.Error()}
	}

	if format == terminal.FormatYAML {
		data, err := yaml.Marshal(result)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", data)
		return err
	}

	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")

	return encoder.Encode(result)
}

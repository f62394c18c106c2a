package opm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/action/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// ValidateCommand makes `validate`. The program is what its examples are called by.
func ValidateCommand(program string) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "validate DIR",
		Short: "Check a file-based catalog",
		Long: `Check a file-based catalog. Nothing is written and the exit code is 0 when it is valid;
else every fault is named and the exit code is 1. With --output the result is written as an
object, for programs.`,
		Example: fmt.Sprintf("  %[1]s validate ./catalog\n  %[1]s validate ./catalog -o json", program),
		Args:    terminal.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(cmd); err != nil {
				return err
			}

			err := (&catalogs.Validate{Dir: args[0]}).Run(cmd.Context())
			var faults *fbc.TreeError
			var content *fbc.Error
			if out.format == "" || err != nil && !errors.As(err, &faults) && !errors.As(err, &content) {
				return err
			}
			if failed := printResult(cmd.OutOrStdout(), out.format, err); failed != nil {
				return failed
			}
			if err != nil {
				return &terminal.ExitError{Code: 1}
			}

			return nil
		},
	}

	out.bind(cmd, "", terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

// validation is the result of a validation.
type validation struct {
	Passed bool             `json:"passed"`
	Error  *validationError `json:"error,omitempty"`
}

type validationError struct {
	Message string `json:"message"`
}

func printResult(w io.Writer, format string, err error) error {
	result := validation{Passed: err == nil}
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

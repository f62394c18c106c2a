package terminal

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newFlagError returns the [UsageError] for an error of parsing the flags of a command. Errors of Go's parsers are replaced by what
// the flag accepts, and an unknown flag gets a suggestion.
func newFlagError(cmd *cobra.Command, err error) error {
	var (
		usage   *UsageError
		invalid *pflag.InvalidValueError
		unknown *pflag.NotExistError
	)

	switch {
	case errors.As(err, &usage):
		return usage
	case errors.As(err, &invalid):
		if accepted := describeAcceptedValues(invalid.GetFlag().Value, invalid.Unwrap()); accepted != "" {
			err = fmt.Errorf("%s%s", strings.TrimSuffix(invalid.Error(), invalid.Unwrap().Error()), accepted)
		}
	case errors.As(err, &unknown):
		if similar := findSimilarFlag(cmd, unknown); similar != "" {
			err = fmt.Errorf("%w, did you mean %q?", err, similar)
		}
	}

	return &UsageError{Err: err}
}

// describeAcceptedValues returns which values a flag accepts, as "must be ...". It returns an empty string if the cause, the error
// of a flag's own type, describes them already.
func describeAcceptedValues(value pflag.Value, cause error) string {
	if restricted, ok := value.(*restrictedValue); ok && restricted.accepted != "" {
		return "must be " + restricted.accepted
	}

	outOfRange := errors.Is(cause, strconv.ErrRange)
	switch value.Type() {
	case "bool":
		return "must be true or false"
	case "duration":
		return "must be a duration, such as 30s, 5m or 1h30m"
	case "int32":
		return fmt.Sprintf("must be a whole number from %d to %d", math.MinInt32, math.MaxInt32)
	case "int", "int64":
		if outOfRange {
			return fmt.Sprintf("must be a whole number from %d to %d", math.MinInt64, math.MaxInt64)
		}
		return "must be a whole number"
	case "uint16":
		return fmt.Sprintf("must be a whole number from 0 to %d", math.MaxUint16)
	case "uint64":
		return fmt.Sprintf("must be a whole number from 0 to %d", uint64(math.MaxUint64))
	case "stringToString":
		return "must be KEY=VALUE, or several of them separated by commas"
	case "stringSlice":
		return `must be values separated by commas; put a value that contains " in double quotes, and write "" for each " in it`
	}

	return ""
}

// checkFlagAsValue returns a [UsageError] if the value of a flag is another flag of the command, because the value itself is missing,
// as in "--image --wait".
func checkFlagAsValue(cmd *cobra.Command) error {
	var found error
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		text, isFlag := strings.CutPrefix(flag.Value.String(), "--")
		if !isFlag || flag.Value.Type() != "string" {
			return
		}
		if name, _, _ := strings.Cut(text, "="); cmd.Flags().Lookup(name) != nil {
			found = &UsageError{Err: fmt.Errorf("flag needs an argument: --%s; its value cannot be the flag --%s", flag.Name, name)}
		}
	})

	return found
}

// findSimilarFlag returns the visible flag with a similar name as the unknown one, with its dashes. It returns an empty string if
// there is none.
func findSimilarFlag(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	name := unknown.GetSpecifiedName()
	if group := unknown.GetSpecifiedShortnames(); group != "" {
		name = group // A word after a single dash is most likely a long name.
	}
	if len(name) < 2 {
		return ""
	}

	// Cobra has the search only for commands.
	candidates := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			candidates.AddCommand(&cobra.Command{Use: flag.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	if similar := candidates.SuggestionsFor(name); len(similar) > 0 {
		return "--" + similar[0]
	}

	return ""
}

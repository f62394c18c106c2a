package terminal

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// RestrictFlag makes a flag of a command refuse values as soon as the command line is parsed, which is before the command reads or
// contacts anything. The function isValid reports whether the value that the flag was just set to is acceptable. The text accepted
// completes the error "must be ...".
func RestrictFlag(cmd *cobra.Command, name, accepted string, isValid func() bool) {
	setFlagCheck(cmd, name, accepted, func() error {
		if isValid() {
			return nil
		}
		return errors.New("must be " + accepted)
	})
}

// ValidateFlag does the same as [RestrictFlag] for a flag whose errors have the words of another program. The error of validate, which
// names the flag or the value, is the whole error.
func ValidateFlag(cmd *cobra.Command, name string, validate func() error) {
	setFlagCheck(cmd, name, "", func() error {
		err := validate()
		var usage *UsageError
		if err == nil || errors.As(err, &usage) {
			return err
		}
		return &UsageError{Err: err}
	})
}

// setFlagCheck makes a flag of a command check each value that it is set to.
func setFlagCheck(cmd *cobra.Command, name, accepted string, check func() error) {
	flag := cmd.Flags().Lookup(name)
	flag.Value = &restrictedValue{Value: flag.Value, accepted: accepted, check: check}
	// The help omits empty defaults, but knows them only by the types of pflag.
	if flag.DefValue == "0s" || flag.DefValue == "[]" {
		flag.DefValue = ""
	}
}

// AddDurationFlag adds a flag for a duration that is not negative.
func AddDurationFlag(cmd *cobra.Command, value *time.Duration, name string, preset time.Duration, usage string) {
	cmd.Flags().DurationVar(value, name, preset, usage)
	RestrictFlag(cmd, name, "a duration that is not negative, such as 30s, 5m or 1h30m", func() bool { return *value >= 0 })
}

// restrictedValue is the value of a flag that accepts only some values of its type.
type restrictedValue struct {
	pflag.Value
	// accepted describes the accepted values. It is empty if the errors of check are complete.
	accepted string
	check    func() error
}

// Set implements pflag.Value.
func (v *restrictedValue) Set(text string) error {
	if err := v.Value.Set(text); err != nil {
		return err
	}
	return v.check()
}

package terminal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// newFlagCommand returns a command with a flag of each type, which needs no cluster, registry or file.
func newFlagCommand() *cobra.Command {
	var (
		count int32
		age   time.Duration
		level string
		out   Output
	)
	cmd := &cobra.Command{Use: "program", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	flags := cmd.Flags()
	flags.Bool("wait", false, "")
	flags.Duration("age", 0, "")
	flags.Int("number", 0, "")
	flags.Int64("long", 0, "")
	flags.Uint16("port", 0, "")
	flags.Uint64("limit", 0, "")
	flags.StringToString("label", nil, "")
	flags.StringSlice("names", nil, "")
	flags.String("image", "", "")
	flags.Bool("secret", false, "")
	_ = flags.MarkHidden("secret") // the flag was just added
	flags.Int32Var(&count, "count", 0, "")
	RestrictFlag(cmd, "count", "a number from 1 to 3", func() bool { return count >= 1 && count <= 3 })
	AddDurationFlag(cmd, &age, "timeout", 0, "")
	flags.StringVar(&level, "level", "", "")
	ValidateFlag(cmd, "level", func() error {
		if level == "high" {
			return nil
		}
		return &UsageError{Err: errUnknownLevel, Advice: "set --level to high"}
	})
	out.AddFlag(cmd, FormatJSON, FormatYAML)

	return cmd
}

// errUnknownLevel is an error of another package.
var errUnknownLevel = errors.New("no such level")

// Wrong flags and arguments are reported with the accepted values, without the messages of Go's parsers.
func TestExecuteWrongFlags(t *testing.T) {
	const seeHelp = "Run 'program --help' for usage.\n"
	for line, want := range map[string]string{
		"--wait=x":      `Error: invalid argument "x" for "--wait" flag: must be true or false` + "\n" + seeHelp,
		"--age=5":       `Error: invalid argument "5" for "--age" flag: must be a duration, such as 30s, 5m or 1h30m` + "\n" + seeHelp,
		"--timeout=x":   `Error: invalid argument "x" for "--timeout" flag: must be a duration that is not negative, such as 30s, 5m or 1h30m` + "\n" + seeHelp,
		"--timeout=-5s": `Error: invalid argument "-5s" for "--timeout" flag: must be a duration that is not negative, such as 30s, 5m or 1h30m` + "\n" + seeHelp,
		"--timeout=5s":  "",
		"--number=x":    `Error: invalid argument "x" for "--number" flag: must be a whole number` + "\n" + seeHelp,
		"--long=9999999999999999999": `Error: invalid argument "9999999999999999999" for "--long" flag: must be a whole number from -9223372036854775808 to 9223372036854775807` +
			"\n" + seeHelp,
		"--port=65536":     `Error: invalid argument "65536" for "--port" flag: must be a whole number from 0 to 65535` + "\n" + seeHelp,
		"--limit=-1":       `Error: invalid argument "-1" for "--limit" flag: must be a whole number from 0 to 18446744073709551615` + "\n" + seeHelp,
		"--label=x":        `Error: invalid argument "x" for "--label" flag: must be KEY=VALUE, or several of them separated by commas` + "\n" + seeHelp,
		`--names=a"b`:      `Error: invalid argument "a\"b" for "--names" flag: must be values separated by commas; put a value that contains " in double quotes, and write "" for each " in it` + "\n" + seeHelp,
		"--count=x":        `Error: invalid argument "x" for "--count" flag: must be a number from 1 to 3` + "\n" + seeHelp,
		"--count=4":        `Error: invalid argument "4" for "--count" flag: must be a number from 1 to 3` + "\n" + seeHelp,
		"--count=3":        "",
		"--level=low":      "Error: no such level\nWhat to do: set --level to high.\n",
		"--level=high":     "",
		"-o text":          `Error: invalid argument "text" for "-o, --output" flag: must be one of json|yaml` + "\n" + seeHelp,
		"--output":         "Error: flag needs an argument: --output\n" + seeHelp,
		"--image --wait":   "Error: flag needs an argument: --image; its value cannot be the flag --wait\n" + seeHelp,
		"--image --age=5s": "Error: flag needs an argument: --image; its value cannot be the flag --age\n" + seeHelp,
		"--image --weight": "",
		"--timout=5s":      `Error: unknown flag: --timout, did you mean "--timeout"?` + "\n" + seeHelp,
		"-wait":            `Error: unknown shorthand flag: 'w' in -wait, did you mean "--wait"?` + "\n" + seeHelp,
		"--secre":          "Error: unknown flag: --secre\n" + seeHelp,
		"--everything":     "Error: unknown flag: --everything\n" + seeHelp,
		"-x":               "Error: unknown shorthand flag: 'x' in -x\n" + seeHelp,
		"surplus":          "Error: unexpected argument \"surplus\"\n" + seeHelp,
		"false":            "Error: unexpected argument \"false\"\n" + seeHelp,
		"--wait false":     "Error: unexpected argument \"false\"\nWhat to do: set a flag to false with =, as in --wait=false.\n",
	} {
		t.Run(line, func(t *testing.T) {
			var errs bytes.Buffer
			root := ConfigureRoot(newFlagCommand())
			root.SetArgs(strings.Fields(line))
			root.SetErr(&errs)
			code := Execute(t.Context(), root)
			if diff := cmp.Diff(want, errs.String()); diff != "" || (code == 0) != (want == "") {
				t.Errorf("got exit code %d, standard error (-want +got):\n%s", code, diff)
			}
		})
	}
}

// A restriction of a flag does not change its help.
func TestRestrictFlagKeepsTheHelp(t *testing.T) {
	newCommand := func(restrict bool) *cobra.Command {
		var (
			age   time.Duration
			names []string
		)
		cmd := &cobra.Command{Use: "program"}
		cmd.Flags().DurationVar(&age, "age", 0, "the age")
		cmd.Flags().StringSliceVar(&names, "names", nil, "the names")
		if restrict {
			RestrictFlag(cmd, "age", "anything", func() bool { return true })
			RestrictFlag(cmd, "names", "anything", func() bool { return true })
		}
		return cmd
	}

	if diff := cmp.Diff(newCommand(false).Flags().FlagUsages(), newCommand(true).Flags().FlagUsages()); diff != "" {
		t.Errorf("help of the flags (-want +got):\n%s", diff)
	}
}

// An argument that is missing or empty is named.
func TestArgumentNames(t *testing.T) {
	for name, test := range map[string]struct {
		check cobra.PositionalArgs
		args  []string
		want  string
	}{
		"exact, missing":  {ExactArgs("FROM", "TO"), []string{"a"}, "TO is missing"},
		"exact, empty":    {ExactArgs("FROM", "TO"), []string{"", "b"}, "FROM is empty"},
		"exact, surplus":  {ExactArgs("FROM", "TO"), []string{"a", "b", "c"}, `unexpected argument "c"`},
		"exact":           {ExactArgs("FROM", "TO"), []string{"a", "b"}, ""},
		"minimum, none":   {MinimumArgs("NAME"), nil, "NAME is missing"},
		"minimum, empty":  {MinimumArgs("NAME"), []string{"a", ""}, "NAME is empty"},
		"minimum":         {MinimumArgs("NAME"), []string{"a", "b"}, ""},
		"maximum, beyond": {MaximumArgs(1), []string{"a", "b"}, `unexpected argument "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := test.check(&cobra.Command{}, test.args); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got error %q, want %q", got, test.want)
			}
		})
	}
}

package golden_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// recorder records failures instead of reporting them.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func TestCheck(t *testing.T) {
	if flag.Lookup("update").Value.String() == "true" {
		t.Skip("with -update nothing is compared")
	}

	t.Chdir(t.TempDir())
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "there.txt"), []byte("one\ntwo\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	cases := map[string]struct {
		name, got, want string
	}{
		"the same":   {name: "there.txt", got: "one\ntwo\n"},
		"different":  {name: "there.txt", got: "one\nthree\n", want: "three"},
		"missing":    {name: "missing.txt", got: "one\n", want: "does not exist"},
		"only a tab": {name: "there.txt", got: "one\ntwo\t\n", want: `two\t`},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			golden.Check(r, c.name, []byte(c.got))
			got := strings.Join(r.failures, "\n")
			if c.want == "" && got != "" {
				t.Errorf("got the failure %s, want none", got)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %q, want one that contains %q", got, c.want)
			}
		})
	}
}

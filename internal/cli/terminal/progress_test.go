package terminal

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// screen interprets terminal output: text, cursor movements, and clearing to the end of the screen. It returns the
// visible lines.
func screen(t *testing.T, written string) []string {
	t.Helper()
	lines := []string{""}
	row := 0
	for i := 0; i < len(written); {
		r, size := utf8.DecodeRuneInString(written[i:])
		switch {
		case r == '\n':
			row++
			if row == len(lines) {
				lines = append(lines, "")
			}
		case strings.HasPrefix(written[i:], "\x1b[J"):
			lines = append(lines[:row], "")
			size = len("\x1b[J")
		case strings.HasPrefix(written[i:], "\x1b["):
			end := strings.IndexByte(written[i:], 'A')
			if end != 3 {
				t.Fatalf("unexpected escape in %q", written[i:])
			}
			row -= int(written[i+2] - '0')
			size = end + 1
		default:
			lines[row] += string(r)
		}
		i += size
	}

	return lines
}

func TestLiveProgress(t *testing.T) {
	var out bytes.Buffer
	p := &liveProgress{w: &out, columns: func() int { return 40 }}
	p.Done("extension created")
	p.Parts([]report.Part{{Name: "resolve", State: report.StateCurrent, Detail: "looking"}})
	p.Parts([]report.Part{
		{Name: "resolve", State: report.StateDone, Detail: "kettle.v0.1.0"},
		{Name: "deploy", State: report.StateCurrent, Detail: "0/1 Deployment with a very long name:\nnot there"},
		{Name: "publish", State: report.StateWaiting},
	})
	p.Warn("looking again")
	want := []string{
		"✓ extension created",
		"Warning: looking again",
		"✓ resolve  kettle.v0.1.0",
		"● deploy   0/1 Deployment with a very …",
		"○ publish",
		"",
	}
	if diff := cmp.Diff(want, screen(t, out.String())); diff != "" {
		t.Errorf("screen (-want +got):\n%s", diff)
	}
}

func TestPlainProgress(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out)
	parts := []report.Part{
		{Name: "unpack", State: report.StateCurrent, Detail: "pulling"},
		{Name: "check", State: report.StateCurrent},
		{Name: "serve", State: report.StateWaiting, Detail: "not shown"},
	}
	p.Parts(parts)
	p.Parts(parts)
	p.Warn("slow")
	parts[0] = report.Part{Name: "unpack", State: report.StateDone, Detail: "12 packages"}
	p.Parts(parts)
	want := "unpack: pulling\ncheck: started\nWarning: slow\nunpack: done, 12 packages\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// The silent display writes only warnings.
func TestSilentProgress(t *testing.T) {
	var out bytes.Buffer
	p := NewSilentProgress(&out)
	p.Done("pulled")
	p.Warn("slow")
	p.Parts([]report.Part{{Name: "unpack", State: report.StateCurrent, Detail: "pulling"}})
	if diff := cmp.Diff("Warning: slow\n", out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestStyle(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if StyleFor(&bytes.Buffer{}).Colour {
		t.Error("got colours in a buffer, want none")
	}

	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if StyleFor(file).Colour {
		t.Error("got colours in a file that is not a terminal, want none")
	}

	coloured, plain := Style{Colour: true}, Style{}
	if got := coloured.Paint(Red, "no"); got != "\x1b[31mno\x1b[0m" {
		t.Errorf("painted: %q", got)
	}
	if got := plain.Paint(Red, "no"); got != "no" {
		t.Errorf("got no colours: %q", got)
	}
}

package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/action"
)

// screen applies what a program writes to a terminal: text, the cursor up, and clearing
// to the end. It gives the lines that are seen.
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
	p.Parts([]action.Part{{Name: "resolve", State: action.StateCurrent, Detail: "looking"}})
	p.Parts([]action.Part{
		{Name: "resolve", State: action.StateDone, Detail: "kettle.v0.1.0"},
		{Name: "deploy", State: action.StateCurrent, Detail: "0/1 Deployment with a very long name:\nnot there"},
		{Name: "publish", State: action.StateWaiting},
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
	p := newProgress(&out)
	parts := []action.Part{
		{Name: "unpack", State: action.StateCurrent, Detail: "pulling"},
		{Name: "check", State: action.StateCurrent},
		{Name: "serve", State: action.StateWaiting, Detail: "not shown"},
	}
	p.Parts(parts)
	p.Parts(parts)
	p.Warn("slow")
	parts[0] = action.Part{Name: "unpack", State: action.StateDone, Detail: "12 packages"}
	p.Parts(parts)
	want := "unpack: pulling\ncheck: begun\nWarning: slow\nunpack: done, 12 packages\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestStyle(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if styleFor(&bytes.Buffer{}).colour {
		t.Error("a buffer gets colours")
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if styleFor(file).colour {
		t.Error("a file that is no terminal gets colours")
	}
	coloured, plain := style{colour: true}, style{}
	if got := coloured.paint(red, "no"); got != "\x1b[31mno\x1b[0m" {
		t.Errorf("painted: %q", got)
	}
	if got := plain.paint(red, "no"); got != "no" {
		t.Errorf("not painted: %q", got)
	}
	// What is painted is what is bad: False, but True for a deprecation.
	for _, c := range []struct {
		condition metav1.Condition
		painted   bool
	}{
		{metav1.Condition{Type: "Available", Status: metav1.ConditionFalse}, true},
		{metav1.Condition{Type: "Available", Status: metav1.ConditionTrue}, false},
		{metav1.Condition{Type: "PackageDeprecated", Status: metav1.ConditionTrue}, true},
		{metav1.Condition{Type: "PackageDeprecated", Status: metav1.ConditionFalse}, false},
	} {
		if got := strings.Contains(paintStatus(c.condition, coloured), "\x1b"); got != c.painted {
			t.Errorf("%s=%s is painted: %v", c.condition.Type, c.condition.Status, got)
		}
	}
}

func TestTreeKeepsLinesOfAMessage(t *testing.T) {
	state := &action.ExtensionState{Name: "k", Package: "p", Namespace: "n", Conditions: []metav1.Condition{
		{Type: "Progressing", Status: metav1.ConditionTrue, Reason: "Retrying", Message: "missing:\n  Verbs:[get]"},
	}, Revisions: []action.RevisionState{{Name: "k-1", Problems: []string{"a Secret is missing"}, Phases: []action.PhaseState{
		{Name: "deploy", State: action.StateWaiting, Objects: []action.ObjectState{{Kind: "Deployment", Namespace: "n", Name: "d", Message: "not created yet"}}},
	}}}}
	var out bytes.Buffer
	extensionTree(state, style{}).write(&out)
	want := `clusterextension/k  package p, namespace n, nothing installed
├─ Progressing  True     Retrying  missing:
│    Verbs:[get]
└─ clusterobjectset/k-1
   ├─ ✗ a Secret is missing
   └─ ○ deploy  waiting, 0 of 1 ready
      └─ ○ Deployment n/d
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

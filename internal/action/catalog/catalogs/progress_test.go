package catalogs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// progressRecorder records calls of Progress.
type progressRecorder struct{ calls []string }

func (r *progressRecorder) Done(message string) { r.calls = append(r.calls, "done "+message) }
func (r *progressRecorder) Warn(message string) { r.calls = append(r.calls, "warn "+message) }
func (r *progressRecorder) Parts(parts []report.Part) {
	var texts []string
	for _, part := range parts {
		texts = append(texts, part.Name+" "+part.Detail)
	}
	r.calls = append(r.calls, fmt.Sprintf("[%s]", strings.Join(texts, ", ")))
}

func TestSharedProgress(t *testing.T) {
	r := &progressRecorder{}
	all := &sharedProgress{target: r}
	one, endOne := all.addProgressLane()
	two, endTwo := all.addProgressLane()
	finishOne := showOperation(one, "one", "pulling")
	finishTwo := showOperation(two, "two", "pulling")
	one.Warn("slow")
	finishOne()
	endOne()
	two.Done("read")
	finishTwo()
	endTwo()
	want := []string{"[one pulling]", "[one pulling, two pulling]", "warn slow", "[two pulling]", "[two pulling]", "done read", "[]", "[]"}
	if diff := cmp.Diff(want, r.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A push is shown once for each MiB, over all its parts.
func TestPushReporter(t *testing.T) {
	r := &progressRecorder{}
	show := newPushReporter(r, "example.com/catalog:v1")
	for _, part := range []image.Progress{
		{Digest: "a", Sent: 1 << 19}, {Digest: "b", Sent: 1 << 19}, {Digest: "a", Sent: 1<<19 + 7}, {Digest: "b", Sent: 3 << 20},
	} {
		show(part)
	}

	want := []string{"[example.com/catalog:v1 pushing, 1 MiB sent]", "[example.com/catalog:v1 pushing, 3 MiB sent]"}
	if diff := cmp.Diff(want, r.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}

	showOperation(nil, "nobody", "looks")()
}

package catalogs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// recorder keeps what it is told.
type recorder struct{ told []string }

func (r *recorder) Done(message string) { r.told = append(r.told, "done "+message) }
func (r *recorder) Warn(message string) { r.told = append(r.told, "warn "+message) }
func (r *recorder) Parts(parts []report.Part) {
	var texts []string
	for _, part := range parts {
		texts = append(texts, part.Name+" "+part.Detail)
	}
	r.told = append(r.told, fmt.Sprintf("[%s]", strings.Join(texts, ", ")))
}

func TestLanes(t *testing.T) {
	r := &recorder{}
	all := &lanes{to: r}
	one, endOne := all.add()
	two, endTwo := all.add()
	finishOne := begin(one, "one", "pulling")
	finishTwo := begin(two, "two", "pulling")
	one.Warn("slow")
	finishOne()
	endOne()
	two.Done("read")
	finishTwo()
	endTwo()
	want := []string{"[one pulling]", "[one pulling, two pulling]", "warn slow", "[two pulling]", "[two pulling]", "done read", "[]", "[]"}
	if diff := cmp.Diff(want, r.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// A push is shown once for each MiB, over all its parts.
func TestPushing(t *testing.T) {
	r := &recorder{}
	show := pushing(r, "example.com/catalog:v1")
	for _, part := range []image.Progress{
		{Digest: "a", Sent: 1 << 19}, {Digest: "b", Sent: 1 << 19}, {Digest: "a", Sent: 1<<19 + 7}, {Digest: "b", Sent: 3 << 20},
	} {
		show(part)
	}

	want := []string{"[example.com/catalog:v1 pushing, 1 MiB sent]", "[example.com/catalog:v1 pushing, 3 MiB sent]"}
	if diff := cmp.Diff(want, r.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}

	begin(nil, "nobody", "looks")()
}

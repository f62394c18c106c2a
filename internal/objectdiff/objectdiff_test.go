package objectdiff

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

func TestCompare(t *testing.T) {
	before := []*unstructured.Unstructured{
		builder.FromYAML("{apiVersion: v1, kind: ConfigMap, metadata: {name: changed, namespace: a}, data: {one: '1', three: '3', two: '2'}}"),
		builder.FromYAML("{apiVersion: v1, kind: ConfigMap, metadata: {name: same, namespace: a}, data: {one: '1'}}"),
		builder.FromYAML("{apiVersion: example.com/v1beta1, kind: Thing, metadata: {name: moved}}"),
		builder.FromYAML("{apiVersion: v1, kind: Service, metadata: {name: removed, namespace: a}}"),
		builder.FromYAML("{apiVersion: v1, kind: Secret, metadata: {name: secret, namespace: a}, data: {kept: c2FtZQ==, turned: b25l}}"),
	}

	after := []*unstructured.Unstructured{
		builder.FromYAML("{apiVersion: v1, kind: Secret, metadata: {name: secret, namespace: a}, data: {kept: c2FtZQ==, turned: dHdv, new: bmV3}}"),
		builder.FromYAML("{apiVersion: example.com/v1, kind: Thing, metadata: {name: moved}}"),
		builder.FromYAML("{apiVersion: v1, kind: ConfigMap, metadata: {name: same, namespace: a}, data: {one: '1'}}"),
		builder.FromYAML("{apiVersion: v1, kind: ConfigMap, metadata: {name: changed, namespace: a}, data: {one: '1', three: '4', two: '2'}}"),
		builder.FromYAML("{apiVersion: v1, kind: Namespace, metadata: {name: added}}"),
	}

	got, err := Compare(before, after)
	if err != nil {
		t.Fatal(err)
	}

	want := &Result{Unchanged: 1, Changes: []Change{
		{Changed, "v1", "ConfigMap", "a", "changed", "@@ -1,7 +1,7 @@\n apiVersion: v1\n data:\n   one: \"1\"\n-  three: \"3\"\n+  three: \"4\"\n   two: \"2\"\n kind: ConfigMap\n metadata:\n"},
		{Added, "v1", "Namespace", "", "added", "@@ -0,0 +1,4 @@\n+apiVersion: v1\n+kind: Namespace\n+metadata:\n+  name: added\n"},
		{Changed, "v1", "Secret", "a", "secret", "@@ -1,7 +1,8 @@\n apiVersion: v1\n data:\n   kept: hidden\n-  turned: hidden (before)\n+  new: hidden (after)\n+  turned: hidden (after)\n kind: Secret\n metadata:\n   name: secret\n"},
		{Removed, "v1", "Service", "a", "removed", "@@ -1,5 +0,0 @@\n-apiVersion: v1\n-kind: Service\n-metadata:\n-  name: removed\n-  namespace: a\n"},
		{Changed, "example.com/v1", "Thing", "", "moved", "@@ -1,4 +1,4 @@\n-apiVersion: example.com/v1beta1\n+apiVersion: example.com/v1\n kind: Thing\n metadata:\n   name: moved\n"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if got.Count(Changed) != 3 || got.Count(Added) != 1 || got.Count(Removed) != 1 {
		t.Errorf("got %d changed, %d added, %d removed", got.Count(Changed), got.Count(Added), got.Count(Removed))
	}
	if before[4].Object["data"].(map[string]any)["turned"] != "b25l" {
		t.Error("the comparison changed an object")
	}
}

func TestHunksApart(t *testing.T) {
	var before, after []string
	for i := range 30 {
		line := strconv.Itoa(i)
		before = append(before, line)
		switch i {
		case 5, 12, 25:
			after = append(after, line+"!")
		default:
			after = append(after, line)
		}
	}

	got := unifiedDiff(before, after)
	if n := strings.Count(got, "@@ -"); n != 2 {
		t.Errorf("got %d hunks, want 2, because close changes share a hunk\n%s", n, got)
	}
	if !strings.HasPrefix(got, "@@ -3,14 +3,14 @@\n 2\n") {
		t.Errorf("got the start of the first hunk\n%.40s", got)
	}
}

// TestReplacesVeryDifferentTexts checks that texts which are too different for a comparison of lines are shown as replaced.
func TestReplacesVeryDifferentTexts(t *testing.T) {
	before, after := make([]string, 20_000), make([]string, 20_000)
	for i := range before {
		before[i], after[i] = fmt.Sprint("a", i), fmt.Sprint("b", i)
	}

	got := unifiedDiff(before, after)
	if removed, added := strings.Count(got, "\n-"), strings.Count(got, "\n+"); removed != len(before) || added != len(after) {
		t.Errorf("got %d lines removed and %d added, want all", removed, added)
	}
}

// FuzzUnified checks that every diff turns the old text into the new one, and the new one into the old one.
func FuzzUnified(f *testing.F) {
	f.Add("a\nb\nc", "a\nc\nd")
	f.Add("", "x")
	f.Add("a\nb\nc\na\nb\nb\na", "c\nb\na\nb\na\nc")
	f.Fuzz(func(t *testing.T, first, second string) {
		before, after := strings.Split(first, "\n"), strings.Split(second, "\n")
		d := differ{a: before, b: after}
		d.collectHunks(0, len(before), 0, len(after))
		var rebuilt []string
		at, bt := 0, 0
		for _, h := range d.hunks {
			if h.a1 < at || h.b1 < bt || h.a1-at != h.b1-bt {
				t.Fatalf("got hunks %+v, want them in order", d.hunks)
			}
			rebuilt = append(rebuilt, before[at:h.a1]...)
			rebuilt = append(rebuilt, after[h.b1:h.b2]...)
			at, bt = h.a2, h.b2
		}

		rebuilt = append(rebuilt, before[at:]...)
		if diff := cmp.Diff(after, rebuilt); diff != "" {
			t.Errorf("applied (-want +got):\n%s", diff)
		}
	})
}

package bundle

import (
	"slices"
	"strings"
	"testing"
)

func TestReadList(t *testing.T) {
	for name, test := range map[string]struct {
		text, err string
		// entries are the kinds of the entries, or their errors.
		entries []string
	}{
		"empty":             {text: "# nothing\n"},
		"YAML":              {text: "- kind: A\n- {kind: B}\n", entries: []string{"A", "B"}},
		"JSON":              {text: `[{"kind":"A"}]`, entries: []string{"A"}},
		"entries of a type": {text: "- a\n-\n- kind: C\n", entries: []string{"is not an object", "is not an object: is empty", "C"}},
		"an object":         {text: "kind: A", err: "is not a list"},
		"several documents": {text: "- kind: A\n---\n- kind: B\n", err: "holds 2 documents, it must hold one list"},
		"invalid":           {text: "- {", err: "document 1"},
		"large":             {text: strings.Repeat("#", maxFileBytes+1), err: "is larger than"},
		"deep":              {text: "- " + strings.Repeat("[", maxNestingDepth+1) + strings.Repeat("]", maxNestingDepth+1), err: "nested deeper"},
	} {
		t.Run(name, func(t *testing.T) {
			entries, err := ReadList([]byte(test.text))
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got error %v, want %q", err, test.err)
			}

			var got []string
			for _, entry := range entries {
				kind, _ := entry.Object["kind"].(string)
				if entry.Err != nil {
					kind = entry.Err.Error()
				}
				got = append(got, kind)
			}
			if !slices.EqualFunc(got, test.entries, strings.HasPrefix) {
				t.Errorf("got %q, want entries that start with %q", got, test.entries)
			}
		})
	}
}

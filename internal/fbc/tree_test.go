package fbc_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

func node(message string, causes ...*fbc.TreeError) *fbc.TreeError {
	return &fbc.TreeError{Message: message, Causes: causes}
}

func TestTreeError(t *testing.T) {
	round := node("round")
	round.Causes = []*fbc.TreeError{node("leaf"), round}
	cases := map[string]struct {
		tree *fbc.TreeError
		want string
	}{
		"a message alone":       {node("msg"), "msg"},
		"a blank one":           {node(" \n"), ""},
		"nothing":               {nil, ""},
		"one below":             {node("top", node("leaf")), "top:\n└── leaf"},
		"a nil below":           {node("top", nil, node("leaf")), "top:\n└── leaf"},
		"itself below":          {round, "round:\n├── leaf"},
		"one node in two paths": {node("top", node("a", round.Causes[0]), node("b", round.Causes[0])), "top:\n├── a:\n│   └── leaf\n└── b:\n    └── leaf"},
		"two levels": {
			node("top", node("a", node("a1"), node("a2", node("deep"))), node("b", node("b1"))),
			"top:\n├── a:\n│   ├── a1\n│   └── a2:\n│       └── deep\n└── b:\n    └── b1",
		},
		"several lines": {
			node("top", node("one\ntwo"), node("three\nfour")),
			"top:\n├── one\n│   two\n└── three\n    four",
		},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.tree.Error(); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

func TestTreeErrorSaysWhere(t *testing.T) {
	tree := node("top",
		&fbc.TreeError{Message: "a", At: fbc.Place{File: "x/y.json", Document: 3, Line: 40, Offset: 900}},
		&fbc.TreeError{Message: "b", At: fbc.Place{File: "z.yaml"}},
		node("c"))
	const want = "top:\n├── a [x/y.json, document 3, line 40]\n├── b [z.yaml]\n└── c"
	if got := tree.Located(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestTreeErrorLeaves(t *testing.T) {
	round := node("round")
	round.Causes = []*fbc.TreeError{node("in"), round}
	var got []string
	for fault := range node("top", node("a", node("a1"), node("a2")), round, nil, node("b")).Leaves() {
		got = append(got, fault.Message)
	}

	if want := []string{"a1", "a2", "in", "b"}; !slices.Equal(got, want) {
		t.Errorf("leaves are %q, want %q", got, want)
	}

	for fault := range node("top", node("a"), node("b")).Leaves() {
		if fault.Message != "a" {
			t.Errorf("went on to %q after a break", fault.Message)
		}
		break
	}
}

func TestTreeErrorUnwraps(t *testing.T) {
	tree := node("top", node("a"), node("b", &fbc.TreeError{Message: "c", Err: &fbc.Error{File: "f", Err: fs.ErrPermission}}))
	var content *fbc.Error
	if !errors.As(tree, &content) || content.File != "f" || !errors.Is(tree, fs.ErrPermission) {
		t.Errorf("the error below is not found: %v", content)
	}
	if errors.Is(tree, fs.ErrNotExist) {
		t.Error("finds what is not there")
	}
}

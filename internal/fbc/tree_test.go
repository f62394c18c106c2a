package fbc_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

func newNode(message string, causes ...*fbc.TreeError) *fbc.TreeError {
	return &fbc.TreeError{Message: message, Causes: causes}
}

func TestTreeError(t *testing.T) {
	round := newNode("round")
	round.Causes = []*fbc.TreeError{newNode("leaf"), round}
	cases := map[string]struct {
		tree *fbc.TreeError
		want string
	}{
		"a message alone":       {newNode("msg"), "msg"},
		"a blank one":           {newNode(" \n"), ""},
		"nothing":               {nil, ""},
		"one below":             {newNode("top", newNode("leaf")), "top:\n└── leaf"},
		"a nil below":           {newNode("top", nil, newNode("leaf")), "top:\n└── leaf"},
		"itself below":          {round, "round:\n├── leaf"},
		"one node in two paths": {newNode("top", newNode("a", round.Causes[0]), newNode("b", round.Causes[0])), "top:\n├── a:\n│   └── leaf\n└── b:\n    └── leaf"},
		"two levels": {
			newNode("top", newNode("a", newNode("a1"), newNode("a2", newNode("deep"))), newNode("b", newNode("b1"))),
			"top:\n├── a:\n│   ├── a1\n│   └── a2:\n│       └── deep\n└── b:\n    └── b1",
		},
		"several lines": {
			newNode("top", newNode("one\ntwo"), newNode("three\nfour")),
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

func TestTreeErrorLeaves(t *testing.T) {
	round := newNode("round")
	round.Causes = []*fbc.TreeError{newNode("in"), round}
	var got []string
	for fault := range newNode("top", newNode("a", newNode("a1"), newNode("a2")), round, nil, newNode("b")).Leaves() {
		got = append(got, fault.Message)
	}

	if want := []string{"a1", "a2", "in", "b"}; !slices.Equal(got, want) {
		t.Errorf("got leaves %q, want %q", got, want)
	}

	for fault := range newNode("top", newNode("a"), newNode("b")).Leaves() {
		if fault.Message != "a" {
			t.Errorf("got %q after a break, want nothing", fault.Message)
		}
		break
	}
}

func TestTreeErrorUnwraps(t *testing.T) {
	tree := newNode("top", newNode("a"), newNode("b", &fbc.TreeError{Message: "c", Err: &fbc.Error{File: "f", Err: fs.ErrPermission}}))
	var content *fbc.Error
	if !errors.As(tree, &content) || content.File != "f" || !errors.Is(tree, fs.ErrPermission) {
		t.Errorf("got %v, want the error below", content)
	}
	if errors.Is(tree, fs.ErrNotExist) {
		t.Error("found an error that is not in the tree")
	}
}

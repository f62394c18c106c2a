package terminal

import (
	"fmt"
	"io"
	"strings"
)

// TreeNode is a line of a tree with its child nodes. A text may have several lines.
type TreeNode struct {
	Text     string
	Children []TreeNode
}

// Write writes the tree to w.
func (n TreeNode) Write(w io.Writer) {
	fmt.Fprintln(w, n.Text)
	writeTreeChildren(w, n.Children, "")
}

func writeTreeChildren(w io.Writer, children []TreeNode, indent string) {
	for i, child := range children {
		branch, below := "├─ ", "│  "
		if i == len(children)-1 {
			branch, below = "└─ ", "   "
		}

		lines := strings.Split(child.Text, "\n")
		fmt.Fprintln(w, indent+branch+lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintln(w, strings.TrimRight(indent+below+line, " "))
		}

		writeTreeChildren(w, child.Children, indent+below)
	}
}

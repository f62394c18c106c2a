package kube

import (
	"fmt"
	"io"

	"github.com/mainstay-dev/mainstay/internal/action/diagnosis"
)

// PrintExplanation prints why an object is as it is, and what to do. The kind is that of the object,
// in lower case.
func PrintExplanation(w io.Writer, kind string, e *diagnosis.Explanation) {
	fmt.Fprintf(w, "%s/%s: %s\n", kind, e.Name, e.Summary)
	if len(e.Why) > 0 {
		fmt.Fprintln(w, "\nWhy:")
		printReasons(w, e.Why, "  ")
	}

	if len(e.Do) > 0 {
		fmt.Fprintln(w, "\nWhat to do:")
		for _, advice := range e.Do {
			fmt.Fprintln(w, "  - "+advice)
		}
	}
}

func printReasons(w io.Writer, reasons []diagnosis.Reason, indent string) {
	for _, reason := range reasons {
		fmt.Fprintln(w, indent+"- "+reason.Text)
		printReasons(w, reason.Because, indent+"  ")
	}
}

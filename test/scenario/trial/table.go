package trial

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Outcome is the result of trying a bundle.
type Outcome string

// The outcomes.
const (
	// Installed means that the bundle is installed and works.
	Installed Outcome = "installed"
	// Refused means that the cluster refuses the bundle for a known reason.
	Refused Outcome = "refused"
	// Updated means that the bundle has replaced another one.
	Updated Outcome = "updated"
	// Migrated means that OLM v1 manages the bundle, which OLM Classic has installed.
	Migrated Outcome = "migrated"
	// Kept means that the bundle works, and that OLM v1 cannot manage it for a known reason.
	Kept Outcome = "kept"
	// Unexpected means everything else.
	Unexpected Outcome = "SURPRISE"
)

// The start and the end of a long reason are printed. The part between them is mostly CRDs.
const maxReasonStart, maxReasonEnd = 200, 260

// Table prints a line for each outcome, and counts them by package. The zero value is empty.
type Table struct {
	mu     sync.Mutex
	counts map[string]map[Outcome]int
}

const lineFormat = "%-26s %-40s %-10s %8s  %s\n"

// PrintHeader prints the names of the columns.
func (t *Table) PrintHeader() {
	fmt.Printf(lineFormat, "PACKAGE", "VERSION", "OUTCOME", "SECONDS", "REASON")
}

// PrintLine prints the outcome of a bundle or an update.
func (t *Table) PrintLine(pkg, version string, o Outcome, took time.Duration, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]map[Outcome]int{}
	}
	if t.counts[pkg] == nil {
		t.counts[pkg] = map[Outcome]int{}
	}
	t.counts[pkg][o]++

	reason = strings.Join(strings.Fields(reason), " ")
	if len(reason) > maxReasonStart+maxReasonEnd {
		reason = reason[:maxReasonStart] + " … " + reason[len(reason)-maxReasonEnd:]
	}

	fmt.Print(strings.TrimRight(fmt.Sprintf(lineFormat, pkg, version, o, fmt.Sprintf("%.2f", took.Seconds()), reason), " \n") + "\n")
}

// Count returns the number of lines with an outcome.
func (t *Table) Count(o Outcome) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	count := 0
	for _, counts := range t.counts {
		count += counts[o]
	}
	return count
}

// PrintSummary prints a table of the packages with the number of lines with each of these
// outcomes.
func (t *Table) PrintSummary(took time.Duration, outcomes ...Outcome) {
	var packages []string
	for pkg := range t.counts {
		packages = append(packages, pkg)
	}
	slices.Sort(packages)

	outcomes = append(outcomes, Unexpected)
	fmt.Printf("\n%-26s", "PACKAGE")
	for _, o := range outcomes {
		fmt.Printf(" %9s", strings.ToUpper(string(o)))
	}
	fmt.Println()

	for _, pkg := range packages {
		fmt.Printf("%-26s", pkg)
		for _, o := range outcomes {
			fmt.Printf(" %9d", t.counts[pkg][o])
		}
		fmt.Println()
	}

	fmt.Printf("%-26s", "(all)")
	for _, o := range outcomes {
		fmt.Printf(" %9d", t.Count(o))
	}
	fmt.Printf("\n\nThe scenario took %.0f s.\n", took.Seconds())
}

// Err returns an error if there was an unexpected outcome.
func (t *Table) Err() error {
	if n := t.Count(Unexpected); n > 0 {
		return fmt.Errorf("%d surprises", n)
	}
	return nil
}

package main

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// outcome is the result of testing a bundle.
type outcome string

const (
	installed  outcome = "installed"
	refused    outcome = "refused"
	updated    outcome = "updated"
	unexpected outcome = "SURPRISE"
)

// The start and the end of a long reason are printed. The part between them is mostly CRDs.
const maxReasonStart, maxReasonEnd = 200, 260

// resultTable prints lines as they come, and counts them.
type resultTable struct {
	mu        sync.Mutex
	counts    map[outcome]int
	surprises int
}

const lineFormat = "%-26s %-26s %-10s %8s  %s\n"

func (t *resultTable) printHeader() {
	t.counts = map[outcome]int{}
	fmt.Printf(lineFormat, "PACKAGE", "VERSION", "OUTCOME", "SECONDS", "REASON")
}

// printLine prints the outcome of a bundle or an update.
func (t *resultTable) printLine(pkg, version string, o outcome, took time.Duration, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[o]++
	if o == unexpected {
		t.surprises++
	}

	reason = strings.Join(strings.Fields(reason), " ")
	if len(reason) > maxReasonStart+maxReasonEnd {
		reason = reason[:maxReasonStart] + " … " + reason[len(reason)-maxReasonEnd:]
	}

	fmt.Print(strings.TrimRight(fmt.Sprintf(lineFormat, pkg, version, o, fmt.Sprintf("%.2f", took.Seconds()), reason), " \n") + "\n")
}

func (t *resultTable) printSummary(took time.Duration) {
	fmt.Printf("\n%d bundles installed and removed, %d refused, %d updates made, %d surprises; %.0f s\n",
		t.counts[installed], t.counts[refused], t.counts[updated], t.surprises, took.Seconds())
}

package main

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// outcome is what became of a bundle.
type outcome string

const (
	installed outcome = "installed"
	refused   outcome = "refused"
	updated   outcome = "updated"
	surprise  outcome = "SURPRISE"
)

// Of a long reason the beginning and the end are shown: lists of CRDs stand between them.
const maxBeginning, maxEnd = 200, 260

// table prints lines as they come, and counts them.
type table struct {
	mu        sync.Mutex
	counts    map[outcome]int
	surprises int
}

const layout = "%-26s %-26s %-10s %8s  %s\n"

func (t *table) head() {
	t.counts = map[outcome]int{}
	fmt.Printf(layout, "PACKAGE", "VERSION", "OUTCOME", "SECONDS", "REASON")
}

// line prints what became of a bundle or of an update.
func (t *table) line(pkg, version string, o outcome, took time.Duration, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[o]++
	if o == surprise {
		t.surprises++
	}

	reason = strings.Join(strings.Fields(reason), " ")
	if len(reason) > maxBeginning+maxEnd {
		reason = reason[:maxBeginning] + " … " + reason[len(reason)-maxEnd:]
	}

	fmt.Print(strings.TrimRight(fmt.Sprintf(layout, pkg, version, o, fmt.Sprintf("%.2f", took.Seconds()), reason), " \n") + "\n")
}

func (t *table) summary(took time.Duration) {
	fmt.Printf("\n%d bundles installed and removed, %d refused, %d updates made, %d surprises; %.0f s\n",
		t.counts[installed], t.counts[refused], t.counts[updated], t.surprises, took.Seconds())
}

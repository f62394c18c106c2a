package install

import (
	"fmt"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/objectdiff"
)

// renderText returns the plan as text for people.
func (p *plan) renderText() string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "Plan for clusterextension/%s: %s\n\n", p.Extension, p.renderHeadline())
	p.writeHeaderFields(w)
	if p.Bundle != nil {
		writeTitledList(w, "Deprecated:", p.Bundle.Deprecations)
	}

	var problems, offers, path, created []string
	for _, problem := range p.Problems {
		problems = append(problems, problem.Check+": "+problem.Message)
	}

	writeTitledList(w, "What stands against it:", problems)
	p.Contents.writeSections(w, p.Images)
	writeTitledList(w, "Why this bundle:", p.Why)
	for _, c := range p.Considered {
		if c.Problem == "" {
			offers = append(offers, fmt.Sprintf("catalog %s, priority %d: %s", c.Catalog, c.Priority, c.Bundle))
		} else {
			offers = append(offers, fmt.Sprintf("catalog %s, priority %d: nothing: %s", c.Catalog, c.Priority, c.Problem))
		}
	}

	writeTitledList(w, "The best of each catalog:", offers)
	for _, edge := range p.Path {
		path = append(path, edge.renderText())
	}

	writeTitledList(w, "Update path:", path)
	if len(p.Created) > 0 { // Otherwise they are among the problems.
		writeTitledList(w, "Missing dependencies:", p.Missing)
	}

	for _, e := range p.Created {
		created = append(created, fmt.Sprintf("clusterextension/%s: bundle %s of package %s, from catalog %s", e.Name, e.Bundle, e.Package, e.Catalog))
	}

	writeTitledList(w, "Extensions to be created for dependencies:", created)
	p.writeObjectDiffs(w)
	return w.String()
}

func (p *plan) renderHeadline() string {
	stopped := ""
	if len(p.Problems) > 0 {
		stopped = ", which would be stopped"
	}

	switch {
	case p.Bundle == nil:
		return "no bundle fits"
	case p.Action == actionNone:
		return "nothing would change"
	case p.Action == actionGoBack:
		return "the update in progress would be abandoned for " + p.Bundle.Name + stopped
	case p.Action == actionChange:
		return p.Bundle.Name + " would be rewritten" + stopped
	case p.Action == actionInstall:
		return "installation of " + p.Bundle.Name + stopped
	default:
		return "update to " + p.Bundle.Name + stopped
	}
}

func (p *plan) writeHeaderFields(w *strings.Builder) {
	fact := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-17s%s\n", name+":", value)
		}
	}
	fact("Package", p.Package)
	if p.Installed != nil {
		fact("Installed", p.Installed.renderText())
	}

	if p.Bundle != nil {
		fact("Bundle", p.Bundle.renderText())
		fact("Image", p.Bundle.Image)
		fact("Catalog", p.Bundle.Catalog)
		fact("Channels", strings.Join(p.Bundle.Channels, ", "))
	}

	fact("Namespace", p.Namespace)
	fact("Service account", p.ServiceAccount)
	fact("Ignored account", p.IgnoredServiceAccount)
	fact("CRD changes", map[string]string{
		"none": "the bundle has no definitions", "safe": "safe", "unsafe": "not safe, see below",
		"unknown": "not all could be judged, see below", "off": "not checked, as the spec says",
	}[p.CRDUpgradeSafety])
}

func (b *plannedBundle) renderText() string {
	if b.Release != "" {
		return fmt.Sprintf("%s, version %s, release %s", b.Name, b.Version, b.Release)
	}
	return fmt.Sprintf("%s, version %s", b.Name, b.Version)
}

func (e *pathEdge) renderText() string {
	how := e.Kind
	if e.SkipRange != "" {
		how += " " + e.SkipRange
	}
	return fmt.Sprintf("%s → %s (%s, in %s)", e.From, e.To, how, strings.Join(e.Channels, ", "))
}

// writeTitledList writes a list under a title, or nothing if it is empty. Further lines of an
// entry are indented.
func writeTitledList(w *strings.Builder, title string, entries []string) {
	if len(entries) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, entry := range entries {
		fmt.Fprintf(w, "  - %s\n", strings.ReplaceAll(strings.TrimRight(entry, "\n"), "\n", "\n    "))
	}
}

// writeObjectDiffs writes unified diffs that patch(1) can read.
func (p *plan) writeObjectDiffs(w *strings.Builder) {
	if p.Objects == nil {
		return
	}

	fmt.Fprintf(w, "\nObjects: %d added, %d changed, %d removed, %d unchanged\n",
		p.Objects.Added, p.Objects.Changed, p.Objects.Removed, p.Objects.Unchanged)
	if p.Note != "" {
		fmt.Fprintln(w, p.Note)
	}

	for _, change := range p.Objects.Changes {
		before, after := "installed/"+change.Object(), "planned/"+change.Object()
		switch change.Change {
		case objectdiff.Added:
			before = "/dev/null"
		case objectdiff.Removed:
			after = "/dev/null"
		}
		fmt.Fprintf(w, "\n--- %s\n+++ %s\n%s", before, after, change.Diff)
	}
}

package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The sections of docs/architecture.md that have a table of packages.
const (
	pureSection       = "Pure packages"
	sharedSection     = "Shared packages"
	componentsSection = "Components"
	classicSection    = "Inside OLM Classic"
	wiringSection     = "Commands and wiring"
)

// anything marks a row that may import every package.
const anything = "anything"

// table is what docs/architecture.md says about imports.
type table struct {
	pure, shared, components []string
	// imports are the folders that each folder may import, beside itself.
	imports map[string][]string
	// classic is the same for the packages below internal/classic.
	classic map[string][]string
}

var quotedName = regexp.MustCompile("`([^`]+)`")

// readTable reads the tables of docs/architecture.md.
func readTable(t *testing.T) *table {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}

	sections := readSections(string(text))
	for _, name := range []string{pureSection, sharedSection, componentsSection, classicSection, wiringSection} {
		if len(sections[name]) < 4 {
			t.Fatalf("docs/architecture.md has %d rows in section %q, want a table", len(sections[name]), name)
		}
	}

	tab := &table{imports: map[string][]string{}, classic: map[string][]string{}}
	tab.pure, tab.shared, tab.components = firstColumn(sections[pureSection]), firstColumn(sections[sharedSection]), firstColumn(sections[componentsSection])
	for _, folder := range tab.pure {
		tab.imports[folder] = append([]string{"api"}, tab.pure...)
	}
	for _, row := range sections[sharedSection] {
		tab.imports[row[0]] = slices.Concat([]string{"api"}, tab.pure, quotedNames(row[2]))
	}
	for _, folder := range tab.components {
		tab.imports[folder] = slices.Concat([]string{"api"}, tab.pure, tab.shared)
	}
	for _, row := range sections[wiringSection] {
		tab.imports[row[0]] = tab.expandGroups(row[2])
	}
	for _, row := range sections[classicSection] {
		tab.classic[row[0]] = quotedNames(row[2])
	}

	return tab
}

// expandGroups returns the folders of a cell that names folders and groups of folders.
func (tab *table) expandGroups(cell string) []string {
	folders := quotedNames(cell)
	for word, group := range map[string][]string{"pure": tab.pure, "shared": tab.shared, "components": tab.components, anything: {anything}} {
		if slices.Contains(strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == ' ' }), word) {
			folders = append(folders, group...)
		}
	}
	return folders
}

// readSections returns the rows of the table in each section, as cells. The first cell is without its backticks.
func readSections(text string) map[string][][]string {
	sections := map[string][][]string{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			section = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		cells[0] = strings.Trim(cells[0], "`")
		sections[section] = append(sections[section], cells)
	}

	return sections
}

// firstColumn returns the first cell of each row.
func firstColumn(rows [][]string) []string {
	var column []string
	for _, row := range rows {
		column = append(column, row[0])
	}
	return column
}

// quotedNames returns the names in backticks.
func quotedNames(cell string) []string {
	var names []string
	for _, match := range quotedName.FindAllStringSubmatch(cell, -1) {
		names = append(names, match[1])
	}
	return names
}

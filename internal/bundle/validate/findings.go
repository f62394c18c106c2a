package validate

import "fmt"

// findings collects the findings of one validator after the other.
type findings struct {
	validator string
	list      Findings
}

// add adds a finding with a complete text.
func (f *findings) add(level Level, format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	f.list = append(f.list, Finding{level, f.validator, text})
}

// addAboutValue adds a finding about a value.
func (f *findings) addAboutValue(level Level, value any, format string, args ...any) {
	f.add(level, "%s: Value %v: %s", level, value, fmt.Sprintf(format, args...))
}

// addAboutField adds a finding about a field and its value.
func (f *findings) addAboutField(level Level, field string, value any, detail string) {
	f.add(level, "%s: Field %s, Value %v: %s", level, field, value, detail)
}

// addAboutCSV adds a finding about a CSV. Existing tools print the empty value before its
// name.
func (f *findings) addAboutCSV(level Level, name, format string, args ...any) {
	f.addAboutValue(level, "", "(%s) %s", name, fmt.Sprintf(format, args...))
}

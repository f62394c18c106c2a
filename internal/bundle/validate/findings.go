package validate

import "fmt"

// findings gathers the findings of one set of rules after the other.
type findings struct {
	validator string
	list      Findings
}

// add adds a finding whose text says it all.
func (f *findings) add(level Level, format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	f.list = append(f.list, Finding{level, f.validator, text})
}

// about adds a finding about a value.
func (f *findings) about(level Level, value any, format string, args ...any) {
	f.add(level, "%s: Value %v: %s", level, value, fmt.Sprintf(format, args...))
}

// field adds a finding about a field and its value.
func (f *findings) field(level Level, field string, value any, detail string) {
	f.add(level, "%s: Field %s, Value %v: %s", level, field, value, detail)
}

// csv adds a finding about a CSV. The empty value before its name is what the tools of
// the field print.
func (f *findings) csv(level Level, name, format string, args ...any) {
	f.about(level, "", "(%s) %s", name, fmt.Sprintf(format, args...))
}

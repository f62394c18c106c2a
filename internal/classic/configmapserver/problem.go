package configmapserver

import (
	"errors"
	"fmt"
	"strings"
)

// errNoKey is the problem of a ConfigMap without a required key.
var errNoKey = errors.New("the ConfigMap does not have this key: add it to data")

// Problem is something in a ConfigMap that cannot be served.
type Problem struct {
	// Key is the key of the ConfigMap's data.
	Key string
	// Entry is the index in the list of the key, from 0, or -1 for the whole list.
	Entry int
	// Name is the name of the entry. It may be empty.
	Name string
	// Err says what is wrong, and what to do.
	Err error
}

// Error implements error.
func (p *Problem) Error() string {
	switch {
	case p.Entry < 0:
		return fmt.Sprintf("%s: %v", p.Key, p.Err)
	case p.Name == "":
		return fmt.Sprintf("%s[%d]: %v", p.Key, p.Entry, p.Err)
	default:
		return fmt.Sprintf("%s[%d] (%s): %v", p.Key, p.Entry, p.Name, p.Err)
	}
}

// Unwrap returns the underlying error.
func (p *Problem) Unwrap() error { return p.Err }

// Problems are all problems of a ConfigMap.
type Problems []*Problem

// Error implements error. It returns a line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

// add adds a problem of an entry.
func (p *Problems) add(key string, entry int, name string, err error) {
	*p = append(*p, &Problem{Key: key, Entry: entry, Name: name, Err: err})
}

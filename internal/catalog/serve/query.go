package serve

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/catalogclient/fields"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// parameters are the names of a query's parameters and where their values go.
type parameters map[string]*string

// read reads a query. An empty parameter is one that is not given.
func (p parameters) read(raw string, known ...string) error {
	if raw == "" {
		return nil
	}

	values, err := url.ParseQuery(raw)
	if err != nil {
		return errors.New("the query cannot be read: escape its parameters as in a URL")
	}

	for key, given := range values {
		field := p[key]
		if field == nil {
			return fmt.Errorf("unknown parameter %.100q: the parameters are %s", key, enumerated(known))
		}
		if len(given) > 1 {
			return fmt.Errorf("the parameter %s is given %d times: give each of %s at most once", key, len(given), enumerated(known))
		}
		*field = given[0]
	}

	return nil
}

func enumerated(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// metasQuery reads the parameters of metas.
func metasQuery(raw string) (catalogstore.Query, *fields.Fields, error) {
	var query catalogstore.Query
	var wanted string
	p := parameters{"schema": &query.Schema, "package": &query.Package, "name": &query.Name, "fields": &wanted}
	if err := p.read(raw, "schema", "package", "name", "fields"); err != nil {
		return query, nil, err
	}

	parsed, err := fields.Parse(wanted)
	return query, parsed, err
}

// graphQuery is what is asked of graph.
type graphQuery struct {
	pkg, channel string
	// format is empty when the query does not say.
	format string
}

func parseGraphQuery(raw string) (graphQuery, error) {
	var q graphQuery
	p := parameters{"package": &q.pkg, "channel": &q.channel, "format": &q.format}
	if err := p.read(raw, "package", "channel", "format"); err != nil {
		return q, err
	}

	switch {
	case q.pkg == "":
		return q, errors.New("no package is given: ask for graph?package=<name>")
	case q.format != "" && q.format != formatJSON && q.format != formatMermaid:
		return q, fmt.Errorf("unknown format %.100q: the formats are %s and %s", q.format, formatJSON, formatMermaid)
	}

	return q, nil
}

package serve

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mainstay-dev/mainstay/internal/catalogclient/fields"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// queryParameters maps the names of query parameters to the variables for their values.
type queryParameters map[string]*string

// parseQuery parses a query into the variables. It returns an error for unknown and repeated parameters. An
// empty value is the same as a missing parameter.
func (p queryParameters) parseQuery(raw string, known ...string) error {
	if raw == "" {
		return nil
	}

	values, err := url.ParseQuery(raw)
	if err != nil {
		return errors.New("invalid query: escape its parameters as in a URL")
	}

	for key, given := range values {
		field := p[key]
		if field == nil {
			return fmt.Errorf("unknown parameter %.100q: the parameters are %s", key, joinWithAnd(known))
		}
		if len(given) > 1 {
			return fmt.Errorf("the parameter %s occurs %d times: each of %s is allowed at most once", key, len(given), joinWithAnd(known))
		}
		*field = given[0]
	}

	return nil
}

func joinWithAnd(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// parseMetasQuery parses the query parameters of the endpoint metas.
func parseMetasQuery(raw string) (catalogstore.Query, *fields.Fields, error) {
	var query catalogstore.Query
	var wanted string
	p := queryParameters{"schema": &query.Schema, "package": &query.Package, "name": &query.Name, "fields": &wanted}
	if err := p.parseQuery(raw, "schema", "package", "name", "fields"); err != nil {
		return query, nil, err
	}

	parsed, err := fields.Parse(wanted)
	return query, parsed, err
}

// graphQuery is the parsed query of the endpoint graph.
type graphQuery struct {
	pkg, channel string
	// format is empty if it is not given.
	format string
}

func parseGraphQuery(raw string) (graphQuery, error) {
	var q graphQuery
	p := queryParameters{"package": &q.pkg, "channel": &q.channel, "format": &q.format}
	if err := p.parseQuery(raw, "package", "channel", "format"); err != nil {
		return q, err
	}

	switch {
	case q.pkg == "":
		return q, errors.New("the parameter package is missing: request graph?package=<name>")
	case q.format != "" && q.format != graphFormatJSON && q.format != graphFormatMermaid:
		return q, fmt.Errorf("unknown format %.100q: the formats are %s and %s", q.format, graphFormatJSON, graphFormatMermaid)
	}

	return q, nil
}

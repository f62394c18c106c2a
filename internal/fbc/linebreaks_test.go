package fbc

import (
	"slices"
	"strings"
	"testing"
)

// TestNothingIsLostSilently checks that with any text between two blobs either both are read or
// the file is an error. YAML 1.1 has more line breaks than JSON and than text files.
func TestNothingIsLostSilently(t *testing.T) {
	blobs := map[string]string{
		"JSON":       `{"schema":"example.one","name":"NAME"}`,
		"flow YAML":  `{schema: example.one, name: NAME}`,
		"block YAML": "schema: example.one<BREAK>name: NAME",
	}
	breaks := map[string]string{"LF": "\n", "CR": "\r", "CRLF": "\r\n", "NEL": "\u0085", "LS": "\u2028", "PS": "\u2029"}
	separators := map[string]string{
		"nothing": "", "a break": "<BREAK>", "a comment": "<BREAK># comment<BREAK>", "a separator": "<BREAK>---<BREAK>",
		"a separator after a line feed": "\n---<BREAK>", "a separator before a line feed": "<BREAK>---\n",
		"a separator with a comment": "<BREAK>--- # comment<BREAK>", "an end": "<BREAK>...<BREAK>", "two breaks": "<BREAK><BREAK>", "a comment on its line": " # comment<BREAK>",
	}
	prefixes := map[string]string{
		"": "", "a comment, ": "# comment<BREAK>",
		"two JSON blobs, ": `{"schema":"example.two"}` + "\n" + `{"schema":"example.two"}` + "\n",
	}
	for breakName, lineBreak := range breaks {
		for separatorName, separator := range separators {
			for firstName, first := range blobs {
				for secondName, second := range blobs {
					if firstName == "block YAML" && (separator == "" || secondName == "block YAML" && !strings.ContainsAny(separator, "-.")) {
						continue // This is one blob, with a longer name or duplicate keys.
					}
					for prefixName, prefix := range prefixes {
						text := prefix + strings.Replace(first, "NAME", "first", 1) + separator + strings.Replace(second, "NAME", "second", 1) + "<BREAK>"
						text = strings.ReplaceAll(text, "<BREAK>", lineBreak)
						if found, err := readNames(text); err == nil && (!slices.Contains(found, "first") || !slices.Contains(found, "second")) {
							t.Errorf("%s%s, %s of %s, %s: got %q of %q without an error, want both blobs or an error", prefixName, firstName, separatorName, breakName, secondName, found, text)
						}
					}
				}
			}
		}
	}
}

// TestLineBreaks checks that the line breaks that opm accepts are read.
func TestLineBreaks(t *testing.T) {
	for name, text := range map[string]string{
		"a comment that ends with CR":   "# comment\r{\"schema\":\"example.one\",\"name\":\"first\"}\r",
		"a comment that ends with NEL":  "# comment\u0085schema: example.one\u0085name: first\u0085",
		"a comment that ends with LS":   "# comment\u2028schema: example.one\u2028name: first\u2028",
		"CR between JSON objects":       "{\"schema\":\"example.one\",\"name\":\"first\"}\r{\"schema\":\"example.one\",\"name\":\"second\"}\r",
		"CR around a separator of JSON": "{\"schema\":\"example.one\",\"name\":\"first\"}\r---\r{\"schema\":\"example.one\",\"name\":\"second\"}\r",
		"YAML after JSON objects":       "{\"schema\":\"example.one\",\"name\":\"first\"}\n{\"schema\":\"example.one\",\"name\":\"second\"}\nschema: example.one\nname: third\n",
	} {
		want := []string{"first", "second", "third"}[:strings.Count(text, "example.one")]
		if found, err := readNames(text); err != nil || !slices.Equal(found, want) {
			t.Errorf("%s: got %q, error %v, want %q", name, found, err, want)
		}
	}
}

// readNames returns the names of the blobs of a file.
func readNames(text string) ([]string, error) {
	var found []string
	for meta, err := range Read(strings.NewReader(text), "catalog", Limits{}) {
		if err != nil {
			return found, err
		}
		if meta.Name != "" {
			found = append(found, meta.Name)
		}
	}

	return found, nil
}

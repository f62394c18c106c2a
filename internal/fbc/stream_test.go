package fbc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// readAll reads all blobs of a text.
func readAll(r io.Reader, limits fbc.Limits) ([]fbc.Meta, error) {
	var metas []fbc.Meta
	for meta, err := range fbc.Read(r, "catalog", limits) {
		if err != nil {
			return metas, err
		}
		metas = append(metas, meta)
	}

	return metas, nil
}

// blobTexts are the blobs alone.
func blobTexts(metas []fbc.Meta) []string {
	var out []string
	for _, m := range metas {
		out = append(out, string(m.Blob))
	}
	return out
}

func TestReadSplitsAFileIntoItsBlobs(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"empty file":                     {text: ""},
		"blank file":                     {text: " \n\t\r\n"},
		"byte order mark alone":          {text: "\ufeff"},
		"separators alone":               {text: "---\n---\n...\n---"},
		"comments alone":                 {text: "# a\n---\n  # b\n---\n# c"},
		"one JSON object":                {text: `{"schema":"a"}`, want: []string{`{"schema":"a"}`}},
		"JSON with blanks":               {text: "{\n  \"schema\": \"a\",\n\t\"l\": [ 1, { } ]\r\n}\n", want: []string{`{"l":[1,{}],"schema":"a"}`}},
		"JSON lines":                     {text: "{\"schema\":\"a\"}\n{\"schema\":\"b\"}\n", want: []string{`{"schema":"a"}`, `{"schema":"b"}`}},
		"JSON without breaks":            {text: `{"schema":"a"}{"schema":"b"}`, want: []string{`{"schema":"a"}`, `{"schema":"b"}`}},
		"JSON after a mark":              {text: "\ufeff{\"schema\":\"a\"}", want: []string{`{"schema":"a"}`}},
		"braces in strings":              {text: `{"schema":"}{\"}","name":"\\"}`, want: []string{`{"name":"\\","schema":"}{\"}"}`}},
		"numbers stay as they are":       {text: `{"schema":"a","n":12345678901234567890,"f":1.0}`, want: []string{`{"f":1.0,"n":12345678901234567890,"schema":"a"}`}},
		"invalid UTF-8 in JSON":          {text: "{\"schema\":\"a\xff\"}", want: []string{"{\"schema\":\"a\ufffd\"}"}},
		"JSON with separators":           {text: "---\n{\"schema\":\"a\"}\n---\n{\"schema\":\"b\"}\n---\nschema: c\n", want: []string{`{"schema":"a"}`, `{"schema":"b"}`, `{"schema":"c"}`}},
		"one YAML document":              {text: "schema: a\nname: b", want: []string{`{"name":"b","schema":"a"}`}},
		"YAML with a mark":               {text: "\ufeffschema: a\n", want: []string{`{"schema":"a"}`}},
		"YAML with CRLF":                 {text: "---\r\nschema: a\r\n---\r\nschema: b\r\n", want: []string{`{"schema":"a"}`, `{"schema":"b"}`}},
		"indented YAML":                  {text: "\n  schema: a\n  name: b\n", want: []string{`{"name":"b","schema":"a"}`}},
		"content on the separator":       {text: "--- {schema: a}\n--- # note\nschema: b\n", want: []string{`{"schema":"a"}`, `{"schema":"b"}`}},
		"dots end a document":            {text: "schema: a\n...\nschema: b\n", want: []string{`{"schema":"a"}`, `{"schema":"b"}`}},
		"directive":                      {text: "%YAML 1.1\n---\nschema: a\n", want: []string{`{"schema":"a"}`}},
		"empty documents between":        {text: "---\nschema: a\n---\n\n---\n# none\n---\nschema: b\n---\n", want: []string{`{"schema":"a"}`, `{"schema":"b"}`}},
		"dashes within a scalar":         {text: "schema: a\ntext: |\n  ---\n  b\nmore: ----\n", want: []string{`{"more":"----","schema":"a","text":"---\nb\n"}`}},
		"YAML in flow style":             {text: "{schema: a, name: '}\"'}\n---\n{schema: b,}\n", want: []string{`{"name":"}\"","schema":"a"}`, `{"schema":"b"}`}},
		"trailing comma":                 {text: "{\"schema\":\"a\",}", want: []string{`{"schema":"a"}`}},
		"JSON, then YAML":                {text: "{\"schema\":\"a\"}\nschema: b\n", want: []string{`{"schema":"a"}`, `{"schema":"b"}`}},
		"YAML keys that are not strings": {text: "schema: a\n1: x\ntrue: z\n", want: []string{`{"1":"x","schema":"a","true":"z"}`}},
		"YAML is not HTML":               {text: "schema: '<&>'\n", want: []string{`{"schema":"<&>"}`}},
		"YAML aliases and merges":        {text: "schema: a\nx: &x {b: 1}\ny1: *x\nz:\n  <<: *x\n  c: 2\n", want: []string{`{"schema":"a","x":{"b":1},"y1":{"b":1},"z":{"b":1,"c":2}}`}},
		"same key twice":                 {text: `{"schema":"a","schema":"b"}`, want: []string{`{"schema":"b"}`}},
		"control characters":             {text: "schema: a\nx: \"\\x01\\t\\u2028\"\n", want: []string{"{\"schema\":\"a\",\"x\":\"\\u0001\\t\\u2028\"}"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, source := range []struct {
				name   string
				reader io.Reader
			}{
				{"at once", strings.NewReader(test.text)},
				{"byte by byte", iotest.OneByteReader(strings.NewReader(test.text))},
				{"data with the end", iotest.DataErrReader(strings.NewReader(test.text))},
			} {
				metas, err := readAll(source.reader, fbc.Limits{})
				if err != nil {
					t.Fatalf("%s: %v", source.name, err)
				}
				if diff := cmp.Diff(test.want, blobTexts(metas)); diff != "" {
					t.Errorf("%s: blobs (-want +got):\n%s", source.name, diff)
				}
				for _, m := range metas {
					if bytes.ContainsRune(m.Blob, '\n') || !json.Valid(m.Blob) {
						t.Errorf("%s: got the blob %q, want JSON on one line", source.name, m.Blob)
					}
				}
			}
		})
	}
}

func TestReadGivesWhatEverySchemaHas(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want fbc.Meta
	}{
		"package":              {`{"schema":"olm.package","name":"p"}`, fbc.Meta{Schema: "olm.package", Name: "p"}},
		"package with package": {`{"schema":"olm.package","name":"p","package":"q"}`, fbc.Meta{Schema: "olm.package", Name: "p"}},
		"bundle":               {`{"package":"p","name":"p.v1","schema":"olm.bundle"}`, fbc.Meta{Schema: "olm.bundle", Package: "p", Name: "p.v1"}},
		"own schema":           {`{"x":[{"schema":"no"}],"schema":"example.com/x"}`, fbc.Meta{Schema: "example.com/x"}},
		"other case":           {`{"Schema":"a","NAME":"b"}`, fbc.Meta{Schema: "a", Name: "b"}},
		"the last counts":      {`{"schema":"a","schema":"b"}`, fbc.Meta{Schema: "b"}},
		"escapes":              {`{"sch\u0065ma":"a\u0062\"","package":"\\"}`, fbc.Meta{Schema: `ab"`, Package: `\`}},
	} {
		t.Run(name, func(t *testing.T) {
			metas, err := readAll(strings.NewReader(test.text), fbc.Limits{})
			if err != nil {
				t.Fatal(err)
			}

			test.want.Blob, _, err = jsontext.Compact(nil, []byte(test.text), 0)
			if err != nil {
				t.Fatal(err)
			}

			test.want.At = fbc.Place{File: "catalog", Document: 1, Line: 1, Length: len(test.text)}
			if diff := cmp.Diff([]fbc.Meta{test.want}, metas); diff != "" {
				t.Errorf("metas (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadSaysWhatIsWrongAndWhere(t *testing.T) {
	small := fbc.Limits{BlobBytes: 100, YAMLBytes: 50, FileBytes: 400, Depth: 4}
	for name, test := range map[string]struct {
		text   string
		limits fbc.Limits
		want   string
	}{
		"no schema":           {text: `{"name":"a"}`, want: `catalog: document 1 (line 1, byte 0): missing root schema field: every blob needs a non-empty string in its field schema`},
		"empty schema":        {text: `{"schema":""}`, want: `missing root schema field`},
		"schema is a number":  {text: `{"schema":1}`, want: `expected value for key "schema" to be a string, got a number`},
		"name is null":        {text: `{"schema":"a","name":null}`, want: `expected value for key "name" to be a string, got null`},
		"package is a list":   {text: "schema: a\npackage: [b]\n", want: `expected value for key "package" to be a string, got a list`},
		"keys differ in case": {text: `{"schema":"a","Name":"b","name":"c"}`, want: `duplicate keys for key "name": [Name name] differ only in case, keep one`},
		"null document":       {text: "schema: a\n---\nnull\n", want: `catalog: document 2 (line 3, byte 14): is null, not an object: missing root schema field`},
		"JSON null":           {text: `null`, want: `is null, not an object`},
		"list":                {text: `[{"schema":"a"}]`, want: `is a list, not an object`},
		"YAML list":           {text: "- schema: a\n", want: `is a list, not an object`},
		"scalar":              {text: `hello`, want: `is a string, not an object`},
		"not JSON":            {text: "{\"schema\":\"a\"}\n{\n\"schema\" \"a\"}", want: `catalog: document 2 (line 3, byte 26): is not valid JSON: invalid character '"' after object key`},
		"JSON cut off":        {text: `{"schema":"a","x":[1,`, want: `document 1 (line 1, byte 0): ends in the middle of a JSON object`},
		"string cut off":      {text: `{"schema":"a`, want: `document 1 (line 1, byte 0): ends in the middle of a JSON object`},
		"brackets cross":      {text: `{"schema":"a","x":[}}`, want: `is not valid JSON: invalid character '}'`},
		"text after JSON":     {text: `{"schema":"a"} x`, want: `document 2 (line 1, byte 14): is a string, not an object`},
		"tabs in YAML":        {text: "schema: a\nx:\n\t- b\n", want: `document 1 (line 3, byte 13): cannot be parsed as YAML: found character that cannot start any token`},
		"UTF-16":              {text: "\xff\xfes\x00", want: `catalog: is in UTF-16: save it as UTF-8`},
		"UTF-16 document":     {text: "\xff\xfe a\n---\n", want: `catalog: is in UTF-16: save it as UTF-8`},
		"binary":              {text: "\x1f\x8b\x08\x00\x00", want: `cannot be parsed as YAML`},
		"YAML infinity":       {text: "schema: a\nx: .inf\n", want: `has the number +Inf, which JSON does not have`},
		"YAML keys clash":     {text: "schema: a\nx: {1: a, \"1\": b}\n", want: `has two keys that both read "1" in JSON: keep one`},
		"YAML key is a list":  {text: "schema: a\n? [a]\n: b\n", want: `invalid map key`},
		"YAML endless alias":  {text: "schema: a\nx: &x\n  y: *x\n", want: `cannot be parsed as YAML`},
		"large JSON":          {text: `{"schema":"` + strings.Repeat("a", 200) + `"}`, limits: small, want: `is larger than 100 bytes`},
		"large JSON, cut off": {text: `{"schema":"` + strings.Repeat("a", 200), limits: small, want: `is larger than 100 bytes`},
		"large YAML":          {text: "schema: " + strings.Repeat("a", 60), limits: small, want: `is a YAML document larger than 50 bytes: write it as JSON, or split it`},
		"many YAML nodes":     {text: "schema: a\nx: [a,b,c,d,e,f]\n", limits: fbc.Limits{YAMLNodes: 7}, want: `is a YAML document with more than 7 lines and list items`},
		"large file":          {text: strings.Repeat("{\"schema\":\"a\"}\n", 5000), limits: fbc.Limits{FileBytes: 70000}, want: `catalog: is larger than 70000 bytes`},
		"deep JSON":           {text: `{"schema":"a","x":[[[[1]]]]}`, limits: small, want: `is nested more than 4 deep`},
		"deep YAML":           {text: "schema: a\nx: [[[[1]]]]\n", limits: small, want: `is nested too deep`},
		"aliases that grow":   {text: "schema: a\nx: &x aaaaaaaa\ny: [*x,*x,*x,*x,*x]\n", limits: fbc.Limits{BlobBytes: 40}, want: `is larger than 40 bytes once its aliases are followed`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(iotest.HalfReader(strings.NewReader(test.text)), test.limits)
			var content *fbc.Error
			if !errors.As(err, &content) {
				t.Fatalf("got error %v (%T), want an *fbc.Error", err, err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error\n%s\nwant it to have\n%s", err, test.want)
			}
		})
	}
}

func TestReadTakesWhatIsJustNotTooLarge(t *testing.T) {
	json, yaml := `{"schema":"a","x":[[1]]}`, "schema: a\nx: [b]\n"
	for name, test := range map[string]struct {
		text   string
		limits fbc.Limits
		fits   bool
	}{
		"file":           {json, fbc.Limits{FileBytes: int64(len(json))}, true},
		"larger file":    {json, fbc.Limits{FileBytes: int64(len(json)) - 1}, false},
		"blob":           {json + json, fbc.Limits{BlobBytes: len(json)}, true},
		"larger blob":    {json + json, fbc.Limits{BlobBytes: len(json) - 1}, false},
		"depth":          {json, fbc.Limits{Depth: 3}, true},
		"deeper":         {json, fbc.Limits{Depth: 2}, false},
		"YAML":           {yaml, fbc.Limits{YAMLBytes: len(yaml)}, true},
		"larger YAML":    {yaml, fbc.Limits{YAMLBytes: len(yaml) - 1}, false},
		"YAML depth":     {yaml, fbc.Limits{Depth: 2}, true},
		"deeper YAML":    {yaml, fbc.Limits{Depth: 1}, false},
		"block YAML":     {"schema: a\nx:\n- b\n", fbc.Limits{Depth: 2}, true},
		"deep block":     {"schema: a\nx:\n- b\n", fbc.Limits{Depth: 1}, false},
		"YAML nodes":     {yaml, fbc.Limits{YAMLNodes: 3}, true},
		"more nodes":     {yaml, fbc.Limits{YAMLNodes: 2}, false},
		"YAML as JSON":   {"schema: a\n", fbc.Limits{BlobBytes: 14}, true},
		"larger as JSON": {"schema: a\nx: b\n", fbc.Limits{BlobBytes: 14}, false},
	} {
		if _, err := readAll(strings.NewReader(test.text), test.limits); (err == nil) != test.fits {
			t.Errorf("%s: got error %v, want none: %t", name, err, test.fits)
		}
	}
}

func TestReadTellsABrokenReaderFromBrokenContent(t *testing.T) {
	broken := errors.New("the disk is gone")
	for _, text := range []string{"", `{"schema":"a"}`, `{"schema":`, "schema: a\n"} {
		_, err := readAll(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), fbc.Limits{})
		var content *fbc.Error
		if !errors.Is(err, broken) || errors.As(err, &content) {
			t.Errorf("after %q: got error %v (%T), want the reader's own", text, err, err)
		}
	}
}

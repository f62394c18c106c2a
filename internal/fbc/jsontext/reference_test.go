package jsontext_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// canonicalReference returns the canonical form of encoding/json for the value at the start of a
// text.
func canonicalReference(text []byte) (out []byte, n int, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, 0, err
	}

	out, err = encodeReference(value)
	return out, int(decoder.InputOffset()), err
}

func encodeReference(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

var seeds = []string{
	`null`, ` true `, `false`, `0`, `-0`, `-1.50e+10,`, `1E5`, `[]`, `{}`, `[ ]`, `{ }`, `""`,
	`{"b":1,"a":[1, 2 ,{"d":"x","c":null}]}`, `{"a":1,"b":2,"a":3}`, `{"a":{"x":1,"x":2},"a":{"y":1,"y":2}} tail`,
	`{"\u0062":1,"a":2,"b":3}`, `{"a\"":1,"a!":2}`, `{"\u2028":1,"z":2}`, "{\"\u2028\":1,\"\\t\":2,\"é\":3,\"e\":4}",
	`"\u003c\u003E\/\"\\\b\f\n\r\t\u0008\u000c\u0001\u001f\u007f"`, `"\ud800"`, `"\ud800\`, `"\ud800\u00`, `"\ud83d\ude00\ud800\udc00\ud800x\ude00\ud800\u0041"`,
	"\"\u2028\u2029\ufffd😀é\x7f\"", "\"a\xffb\xc0\xafc\xed\xa0\x80\"", "\"a\tb\"", `"abc`, `"abc\`, `"abc\u12`, `"abc\u12g4"`, `"\x"`,
	`" "`, `"\ud800\bdc00"`, `"\ud800udc00 "`, `{"a":{"b":"}],{["},"c":["]","\\",{"\"]":"["}]}`, `{"b":1,"a!":1,"a":2}`, `"\u00ff\u00FF\uaAfF"`, "\"\u0080\"", "\u0080\n", `9`, `[9]`,
	`{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a" 1}`, `{1:2}`, `{"a":1 "b"}`, `[1,`, `[1,]`, `[1 2]`, `[,]`,
	`tru`, `trux`, `nul`, `falsy`, `-`, `-x`, `01`, `1.`, `1.x`, `1e`, `1e+`, `1ex`, `.5`, `+1`, `'a'`, "", "  ", "\xff", "\x00", "]", "}",
	`{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\/aaaaaaaaaaaaaaaaa":"bbbbbbbbbbbbbbbbbbbb\n\n\n\n bbbbbbbbbbbbbbbbb",        "a"   :   [   ]   }`,
}

// checkCompact compares Compact with encoding/json for one text.
func checkCompact(t *testing.T, text []byte) {
	t.Helper()
	want, wantN, wantErr := canonicalReference(text)
	prefix := []byte("before")
	if object := bytes.TrimLeft(text, " \r\n\t"); wantErr == nil && object[0] == '{' {
		size := wantN - (len(text) - len(object))
		for _, cut := range []int{0, 1, size / 2, size - 1, size} {
			if got := jsontext.End(object[:cut]); got != size && got != 0 || (got == size) != (cut == size) {
				t.Errorf("End(%q) = %d, want %d for the whole object, otherwise 0", object[:cut], got, size)
			}
		}
		if got := jsontext.End(object); got != size {
			t.Errorf("End(%q) = %d, want %d", object, got, size)
		}
	}

	got, n, err := jsontext.Compact(prefix, text, 0)
	if wantErr != nil {
		checkError(t, text, wantErr, err)
		if string(got) != "before" {
			t.Errorf("Compact(%q) returned %q with its error", text, got)
		}
		return
	}

	if err != nil {
		t.Fatalf("Compact(%q): got error %v, want none as from encoding/json", text, err)
	}
	if string(got) != "before"+string(want) || n != wantN {
		t.Errorf("Compact(%q) =\n%s, %d, want\n%s, %d", text, got, n, "before"+string(want), wantN)
	}

	again, _, err := jsontext.Compact(nil, want, 0)
	if err != nil || !bytes.Equal(again, want) {
		t.Errorf("Compact(%q) = %q, %v: the canonical form is not its own", want, again, err)
	}

	checkParts(t, want)
}

// checkError compares the errors for a text that is not JSON.
func checkError(t *testing.T, text []byte, want, got error) {
	t.Helper()
	var ours *jsontext.SyntaxError
	if !errors.As(got, &ours) {
		t.Fatalf("Compact(%q): got error %v, want a *SyntaxError as %v", text, got, want)
	}

	var theirs *json.SyntaxError
	switch {
	case errors.As(want, &theirs):
		// The offset of encoding/json is after the byte.
		if ours.Err.Error() != theirs.Error() || int64(ours.Offset) != theirs.Offset-1 {
			t.Errorf("Compact(%q): %v at %d, want %v at %d", text, ours, ours.Offset, theirs, theirs.Offset-1)
		}
	case errors.Is(want, io.EOF), errors.Is(want, io.ErrUnexpectedEOF):
		if !errors.Is(got, jsontext.ErrTruncated) || ours.Offset != len(text) {
			t.Errorf("Compact(%q): %v at %d, want %v at %d", text, ours, ours.Offset, jsontext.ErrTruncated, len(text))
		}
	}
}

// checkParts checks splitting and indenting a canonical value.
func checkParts(t *testing.T, value []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, value, "\t", " .  "); err != nil {
		t.Fatal(err)
	}
	if got := jsontext.Indent([]byte("x"), value, "\t", " .  "); string(got) != "x"+indented.String() {
		t.Errorf("Indent(%q) =\n%s\nwant\n%s", value, got, indented.String())
	}

	members := bytes.NewBufferString("{")
	for key, member := range jsontext.Members(value) {
		writeSeparator(members)
		members.Write(key)
		members.WriteByte(':')
		members.Write(member)
		unquoted, err := jsontext.Unquote(key)
		var want string
		if wantErr := json.Unmarshal(key, &want); wantErr != nil || err != nil || unquoted != want {
			t.Errorf("Unquote(%q) = %q, %v, want %q, %v", key, unquoted, err, want, wantErr)
		}
	}

	if members.WriteByte('}'); value[0] == '{' && !bytes.Equal(members.Bytes(), value) {
		t.Errorf("members of %q: got %q, want the same object", value, members)
	}

	elements := bytes.NewBufferString("[")
	for element := range jsontext.Elements(value) {
		writeSeparator(elements)
		elements.Write(element)
	}

	if elements.WriteByte(']'); value[0] == '[' && !bytes.Equal(elements.Bytes(), value) {
		t.Errorf("elements of %q: got %q, want the same array", value, elements)
	}

	checkObject(t, value)
}

func writeSeparator(b *bytes.Buffer) {
	if b.Len() > 1 {
		b.WriteByte(',')
	}
}

// checkObject compares CompactObject with Compact and Members.
func checkObject(t *testing.T, value []byte) {
	t.Helper()
	out, n, members, err := jsontext.CompactObject([]byte("xy"), append([]byte(" "), value...), 0, nil)
	if value[0] != '{' {
		if err == nil {
			t.Errorf("CompactObject(%q): got no error, want one", value)
		}
		return
	}

	if err != nil || string(out) != "xy"+string(value) || n != len(value)+1 {
		t.Errorf("CompactObject(%q) = %q, %d, %v", value, out, n, err)
	}

	i := 0
	for key, member := range jsontext.Members(value) {
		if i >= len(members) || !bytes.Equal(members[i].Key, key) || !bytes.Equal(members[i].Value, member) {
			t.Fatalf("member %d of %q is %q, want %q:%q", i, value, members[min(i, len(members)):], key, member)
		}
		i++
	}

	if i != len(members) {
		t.Errorf("CompactObject(%q): got %d members, want %d", value, len(members), i)
	}
}

func TestCompactIsAsEncodingJSON(t *testing.T) {
	for _, seed := range seeds {
		// Test every position within a word of eight bytes.
		for shift := range 9 {
			checkCompact(t, []byte(strings.Repeat(" ", shift)+seed))
		}
	}
}

func FuzzCompact(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(checkCompact)
}

func FuzzUnquote(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		var want string
		wantErr := json.Unmarshal(text, &want)
		if wantErr == nil && (text[0] != '"' || text[len(text)-1] != '"') {
			return // The input is null or has blanks around the string.
		}

		got, err := jsontext.Unquote(text)
		if (err == nil) != (wantErr == nil) || got != want {
			t.Errorf("Unquote(%q) = %q, %v, want %q, %v", text, got, err, want, wantErr)
		}

		// encoding/json escapes a U+FFFD that replaces invalid UTF-8.
		encoded, err := encodeReference(string([]rune(string(text))))
		if got := jsontext.AppendQuoted(nil, text); err != nil || !bytes.Equal(got, encoded) {
			t.Errorf("AppendQuoted(%q) = %s, want %s", text, got, encoded)
		}
	})
}

// FuzzPieces searches for non-compact texts for which splitting does not end.
func FuzzPieces(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		size := 0
		for key, value := range jsontext.Members(text) {
			size += len(key) + len(value)
		}

		for element := range jsontext.Elements(text) {
			size += len(element)
		}

		if size > len(text) {
			t.Errorf("the parts of %q have %d bytes, want at most its length", text, size)
		}
		if got := jsontext.Indent(nil, text, "", ""); len(got) < len(text) {
			t.Errorf("Indent(%q) = %q, want all of the text", text, got)
		}
	})
}

func TestCompactKeepsTheDepth(t *testing.T) {
	for text, want := range map[string]bool{`[[{}]]`: true, `[[{"a":[]}]]`: false, `{"a":{"b":[]}}`: true, `{"a":{"b":{"c":{}}}}`: false, `[[],[[]],{"a":{}}]`: true} {
		_, _, err := jsontext.Compact(nil, []byte(text), 3)
		if (err == nil) != want || err != nil && !errors.Is(err, jsontext.ErrTooDeep) {
			t.Errorf("%s with a depth of three: got error %v", text, err)
		}
	}

	deep := strings.Repeat("[", jsontext.DefaultDepth)
	for text, want := range map[string]error{deep + "[": jsontext.ErrTooDeep, deep: jsontext.ErrTruncated} {
		if _, _, err := jsontext.Compact(nil, []byte(text), 0); !errors.Is(err, want) {
			t.Errorf("got error %v, want %v", err, want)
		}
	}
}

func TestCompactObjectWantsAnObject(t *testing.T) {
	for _, text := range []string{"", "  ", "[]", "null", `"{}"`} {
		if _, _, _, err := jsontext.CompactObject(nil, []byte(text), 0, nil); err == nil {
			t.Errorf("got %q accepted as an object, want an error", text)
		}
	}
}

func TestCursorTellsWhatIsNotCompact(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":1,"b":[]}`: true, `{}`: true, `{"a":"" ,"b":2}`: false, `{"a":1}x`: false, `{"a":1`: false, `{"a":1,`: false, `{`: false,
	} {
		c := jsontext.Cursor{Text: []byte(text)}
		for more := c.Open(); more; more = c.More() {
			c.Key()
			c.Value()
		}
		if c.Done() != want {
			t.Errorf("%s: got done %t, want %t", text, c.Done(), want)
		}
	}
}

func TestAppendUnquoted(t *testing.T) {
	for quoted, want := range map[string]string{`""`: "x", `"a"`: "xa", `"a\n\\\"\u2028\t\b\f\r\u0001é"`: "xa\n\\\"\u2028\t\b\f\r\x01é", `"`: "x", ``: "x", `"\`: "x"} {
		if got := jsontext.AppendUnquoted([]byte("x"), []byte(quoted)); string(got) != want {
			t.Errorf("%s: got %q, want %q", quoted, got, want)
		}
	}
}

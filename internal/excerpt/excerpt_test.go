package excerpt

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestStart(t *testing.T) {
	for _, tc := range []struct {
		text string
		max  int
		want string
	}{
		{"", 10, ""},
		{"registry", 8, "registry"},
		{"registries", 8, "regis…"},
		{"ab\xffcd", 8, "abcd"},
		{"aäöü", 6, "aä…"},
		{"aäöüx", 5, "a…"},
		{"long", 2, "…"},
	} {
		if got := Start(tc.text, tc.max); got != tc.want {
			t.Errorf("Start(%q, %d) = %q, want %q", tc.text, tc.max, got, tc.want)
		}
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"one\n\ttwo  three\r\n": "one two three",
		"\x1b[31mred\x07":       "[31mred",
		"0123456789abcdefg":     "0123456789abc…",
	} {
		if got := Line(text, 16); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestEnds(t *testing.T) {
	text := "applying the revision: " + strings.Repeat("ä", 200) + ": connection refused"
	got := Ends(text, 120)
	if !strings.HasPrefix(got, "applying the revision: ") || !strings.HasSuffix(got, ": connection refused") || !strings.Contains(got, "bytes left out") {
		t.Errorf("Ends: got %q, want the start and the end", got)
	}
	if short := "nothing to leave out"; Ends(short, 20) != short {
		t.Errorf("Ends: got %q for a short text, want it unchanged", Ends(short, 20))
	}
}

func TestJoin(t *testing.T) {
	for _, tc := range []struct {
		items                  string
		maxItems               int
		separator, conjunction string
		want                   string
	}{
		{"", 3, ", ", " and ", ""},
		{"a", 1, ", ", " and ", "a"},
		{"a b c", 3, ", ", " and ", "a, b, c"},
		{"a b c d", 3, ", ", " and ", "a, b, c and 1 more"},
		{"a b c d e", 1, " or ", " or ", "a or 4 more"},
		{"a b c d", 2, "; ", "; and ", "a; b; and 2 more"},
	} {
		if got := Join(strings.Fields(tc.items), tc.maxItems, tc.separator, tc.conjunction); got != tc.want {
			t.Errorf("Join(%q, %d, %q, %q) = %q, want %q", tc.items, tc.maxItems, tc.separator, tc.conjunction, got, tc.want)
		}
	}
}

func TestJoinSample(t *testing.T) {
	for _, tc := range []struct {
		sample string
		total  int
		want   string
	}{
		{"", 0, ""},
		{"a b", 2, "a, b"},
		{"a b", 40, "a, b and 38 more"},
	} {
		if got := JoinSample(strings.Fields(tc.sample), tc.total, ", ", " and "); got != tc.want {
			t.Errorf("JoinSample(%q, %d) = %q, want %q", tc.sample, tc.total, got, tc.want)
		}
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add("aäöü\xff\n…", 7)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 64 + (limit%1000+1000)%1000 // The limit leaves space for the note.
		for name, got := range map[string]string{"Start": Start(text, limit), "Line": Line(text, limit), "Ends": Ends(text, limit)} {
			if len(got) > limit || !utf8.ValidString(got) {
				t.Errorf("%s(%q, %d) = %q: %d bytes", name, text, limit, got, len(got))
			}
		}
	})
}

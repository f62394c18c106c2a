package platform

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

func TestParseMinor(t *testing.T) {
	for text, want := range map[string]string{
		"4.18": "4.18", "4.18.3": "4.18", "v1.36.6+k3s1": "1.36", "4.18.0-rc.1": "4.18", "5": "5.0", "04.08": "4.8",
		"": "error", "later": "error", "4.x": "error", "4.18.3.1": "error", "-1.2": "error",
	} {
		m, err := ParseMinor(text)
		got := m.String()
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: got %s (%v), want %s", text, got, err, want)
		}
	}
}

func TestSpaceAroundAVersion(t *testing.T) {
	if m, err := ParseMinor(" 4.9\n"); err != nil || m != (Minor{4, 9}) {
		t.Errorf("got %s, %v; want 4.9", m, err)
	}
}

func TestOrder(t *testing.T) {
	ordered := []Minor{{1, 9}, {1, 10}, {2, 0}, {2, 1}, {10, 0}}
	for i, a := range ordered {
		for j, b := range ordered {
			if a.Less(b) != (i < j) {
				t.Errorf("%s is less than %s: got %t, want %t", a, b, a.Less(b), i < j)
			}
		}
		if !a.Less(a.Next()) || a.Next().Major != a.Major {
			t.Errorf("next of %s: got %s, want a higher one of the same major version", a, a.Next())
		}
	}
}

func TestStated(t *testing.T) {
	of := func(propertyType, value string) fbc.Property {
		return fbc.Property{Type: propertyType, Value: json.RawMessage(value)}
	}
	got := PropertyValues([]fbc.Property{
		of("a", `"text"`), of("b", `"other"`), of("a", `4.18`), of("a", `""`), of("a", `{"x":1}`),
	}, "a")
	if diff := cmp.Diff([]string{"text", "4.18", "", `{"x":1}`}, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if got := PropertyValues(nil, "a"); got != nil {
		t.Errorf("without properties: got %v, want none", got)
	}
}

// FuzzParseMinor checks that the text of a parsed version has the same value.
func FuzzParseMinor(f *testing.F) {
	for _, text := range []string{"4.18", "v1.36.6+k3s1", "4.18.0-rc.1", "later", "18446744073709551615.0"} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 256 {
			t.Skip("longer than the tested texts")
		}

		m, err := ParseMinor(text)
		if err != nil {
			return
		}

		again, err := ParseMinor(m.String())
		if err != nil || again != m {
			t.Errorf("%q: got %s, then %s when parsed again: %v", text, m, again, err)
		}
		if strings.TrimSpace(text) == "" {
			t.Errorf("%q: got a version, want an error", text)
		}
	})
}

package registry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// ask returns the answer to a request for a profile.
func ask(t *testing.T, method, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	newProfileMux().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)))
	return answer
}

// Tools read these answers.
func TestProfilesAreReadableByTools(t *testing.T) {
	for target, want := range map[string]string{
		"/debug/pprof/":                   `<a href="heap?debug=1">heap</a>`,
		"/debug/pprof/goroutine?debug=2":  "goroutine ",
		"/debug/pprof/heap?debug=1":       "heap profile: ",
		"/debug/pprof/cmdline":            strings.Join(os.Args, "\x00"),
		"/debug/pprof/heap":               "\x1f\x8b",
		"/debug/pprof/trace?seconds=1e-3": "go 1.",
		"/debug/pprof/symbol":             "num_symbols: 1\n",
	} {
		if answer := ask(t, http.MethodGet, target, ""); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: %d %.200q, want %q", target, answer.Code, answer.Body, want)
		}
	}

	if answer := ask(t, http.MethodGet, "/debug/pprof/nothing", ""); answer.Code != http.StatusNotFound || answer.Header().Get("X-Go-Pprof") != "1" {
		t.Errorf("a profile that there is not: %d %v", answer.Code, answer.Header())
	}
}

func TestSymbols(t *testing.T) {
	address := fmt.Sprintf("%#x", reflect.ValueOf(serveSymbols).Pointer())
	want := "num_symbols: 1\n" + address + " github.com/mainstay-dev/mainstay/internal/classic/registry.serveSymbols\n"
	for name, answer := range map[string]*httptest.ResponseRecorder{
		"query": ask(t, http.MethodGet, "/debug/pprof/symbol?"+address, ""),
		"body":  ask(t, http.MethodPost, "/debug/pprof/symbol", "0x0+x+"+address),
	} {
		if answer.Body.String() != want {
			t.Errorf("%s: %q, want %q", name, answer.Body, want)
		}
	}

	if answer := ask(t, http.MethodPost, "/debug/pprof/symbol", strings.Repeat("1", maxSymbolRequestBytes+1)); !strings.Contains(answer.Body.String(), "reading request: ") {
		t.Errorf("a question without end: %q", answer.Body)
	}
}

func TestSecondsOfAProfile(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 30 * time.Second, "x": 30 * time.Second, "-1": 30 * time.Second, "NaN": 30 * time.Second, "0.5": 500 * time.Millisecond, "1e300": maxProfileDuration,
	} {
		if got := requestedDuration(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?seconds="+text, nil), 30); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

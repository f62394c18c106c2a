package registry

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// getProfile returns the response to a request for a profile.
func getProfile(t *testing.T, target string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	newProfileMux().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
	return answer
}

// Tools read these responses.
func TestProfilesAreReadableByTools(t *testing.T) {
	for target, want := range map[string]string{
		"/debug/pprof/":                   `<a href='heap?debug=1'>heap</a>`,
		"/debug/pprof/goroutine?debug=2":  "goroutine ",
		"/debug/pprof/heap?debug=1":       "heap profile: ",
		"/debug/pprof/cmdline":            strings.Join(os.Args, "\x00"),
		"/debug/pprof/heap":               "\x1f\x8b",
		"/debug/pprof/trace?seconds=1e-3": "go 1.",
		"/debug/pprof/symbol":             "num_symbols: 1\n",
	} {
		if answer := getProfile(t, target); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: got %d %.200q, want %q", target, answer.Code, answer.Body, want)
		}
	}

	if answer := getProfile(t, "/debug/pprof/nothing"); answer.Code != http.StatusNotFound || answer.Header().Get("X-Go-Pprof") != "1" {
		t.Errorf("an unknown profile: got %d %v", answer.Code, answer.Header())
	}
}

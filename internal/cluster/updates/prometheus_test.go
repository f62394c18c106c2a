package updates

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/poll"
)

func TestPrometheusAnswers(t *testing.T) {
	vector := func(samples ...string) string {
		var all []string
		for _, sample := range samples {
			all = append(all, `{"metric":{},"value":[1700000000,"`+sample+`"]}`)
		}
		return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(all, ",") + `]}}`
	}

	for name, c := range map[string]struct {
		status  int
		body    string
		matches bool
		// want is a part of the error.
		want string
	}{
		"one":           {200, vector("1"), true, ""},
		"zero":          {200, vector("0"), false, ""},
		"a half":        {200, vector("0.5"), false, "the query must result in 0 or 1, not in 0.5"},
		"NaN":           {200, vector("NaN"), false, "the query must result in 0 or 1, not in NaN"},
		"empty":         {200, vector(), false, "the query must result in one sample, not in 0"},
		"two":           {200, vector("1", "1"), false, "the query must result in one sample, not in 2"},
		"a scalar":      {200, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`, false, "the query must result in an instant vector, not a scalar"},
		"a number":      {200, strings.Replace(vector("1"), `"1"`, `1`, 1), false, "sample value must be a quoted string"},
		"a wrong query": {400, `{"status":"error","errorType":"bad_data","error":"invalid parameter\n\"query\""}`, false, `prometheus answered with an error: invalid parameter "query"`},
		"forbidden":     {403, `Forbidden`, false, "prometheus answered with an error: client error: 403"},
		"an error":      {200, `{"status":"error","error":"expired"}`, false, `prometheus answered with an error: expired`},
		"no JSON":       {200, `<html>`, false, "the answer of Prometheus cannot be read: invalid character '<' looking for beginning of value"},
		"megabytes":     {200, strings.Repeat(" ", maxResponseBytes+1), false, "the answer of Prometheus has more than 1048576 bytes"},
		"a redirect":    {302, ``, false, "it redirects, which is not followed because it would forward the token"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.status == 302 {
					w.Header().Set("Location", "https://elsewhere.example.com")
				}
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))

			defer server.Close()
			matches, err := (&Prometheus{URL: server.URL}).Match(t.Context(), "up")
			text := ""
			if err != nil {
				text = err.Error()
			}
			if matches != c.matches || !strings.Contains(text, c.want) || (c.want == "") != (text == "") {
				t.Errorf("got %v, %q; want %v, %q", matches, text, c.matches, c.want)
			}
		})
	}
}

// FuzzAnswer checks that no answer breaks a query, and that only a 1 matches.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}]}}`,
		`{"status":"error","errorType":"bad_data","error":"no"}`, `{"data":{"resultType":"scalar","result":[1,"1"]}}`, `[]`, `{}`,
		`{"status":"success","data":{"resultType":"vector","result":[null]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"1","sum":"1","buckets":[]}]}]}}`,
	} {
		f.Add([]byte(text))
	}

	var answer []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) }))
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, data []byte) {
		answer = data
		matches, err := (&Prometheus{URL: server.URL}).Match(t.Context(), "up")
		if err == nil && matches && !strings.Contains(string(data), "1") && !strings.Contains(string(data), `\u0031`) {
			t.Errorf("got a match for the response %q, want none", data)
		}
	})
}

// The token and certificates are read for each query. The host in the URL is used for TLS, and
// hosted clusters query their own metrics.
func TestPrometheusConnection(t *testing.T) {
	var got *http.Request
	query := ""
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		query = r.FormValue("query")
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"1"]}]}}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	write := func(name string, data []byte) {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token, []byte("secret\n"))
	write(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	p := &Prometheus{
		URL: "https://example.com:9091/api-of-thanos", TokenFile: token, CAFile: ca, HostedClusterID: "some-id",
		Dial: func(context.Context) (string, error) { return strings.TrimPrefix(server.URL, "https://"), nil },
	}
	if matches, err := p.Match(t.Context(), `up{_id=""}`); err != nil || !matches {
		t.Fatal(matches, err)
	}
	if got.URL.Path != "/api-of-thanos/api/v1/query" || got.Header.Get("Authorization") != "Bearer secret" || query != `up{_id="some-id"}` {
		t.Errorf("got the query %q at %s with headers %v, want the ID of the cluster and the token", query, got.URL, got.Header)
	}

	write(token, []byte("renewed"))
	if _, err := p.Match(t.Context(), "up"); err != nil || got.Header.Get("Authorization") != "Bearer renewed" {
		t.Errorf("after the token was renewed: got error %v and headers %v, want the new token", err, got.Header)
	}

	p.CAFile = ""
	if _, err := p.Match(t.Context(), "up"); err == nil || strings.Contains(err.Error(), "renewed") {
		t.Errorf("an untrusted certificate: got error %v, want one without the token", err)
	}

	for _, bad := range []*Prometheus{{URL: "http://[::1"}, {URL: server.URL, TokenFile: filepath.Join(dir, "none")}, {URL: server.URL, CAFile: token}} {
		if _, err := bad.Match(t.Context(), "up"); err == nil {
			t.Errorf("%+v: got no error, want one", bad)
		}
	}

	if _, err := p.Match(t.Context(), " "); err == nil {
		t.Error("got no error for an empty query, want one")
	}
}

// A real Prometheus evaluates the queries of update graphs.
func TestRealPrometheus(t *testing.T) {
	address := startPrometheus(t)
	cache := NewCache(&Prometheus{URL: "http://" + address}, nil)
	for _, c := range []struct {
		query   string
		matches bool
		fails   string
	}{
		{query: `vector(1)`, matches: true},
		{query: `vector(0)`},
		{query: `topk(1, group(prometheus_build_info) or 0 * group(up))`, matches: true},
		{query: `absent(some_metric_that_nobody_has) * 0`},
		{query: `some_metric_that_nobody_has`, fails: "the query must result in one sample, not in 0"},
		{query: `1`, fails: "the query must result in an instant vector, not a scalar"},
		{query: `sum(`, fails: "prometheus answered with an error: invalid parameter"},
	} {
		direct, err := (&Prometheus{URL: "http://" + address}).Match(t.Context(), c.query)
		if direct != c.matches || (err != nil) != (c.fails != "") || err != nil && !strings.HasPrefix(err.Error(), c.fails) {
			t.Errorf("%s: got match %v (error %v), want %v (error %q)", c.query, direct, err, c.matches, c.fails)
		}
	}

	// The cache, which limits the rate, returns the same results.
	for _, query := range []string{"vector(1)", "vector(1) > 0"} {
		poll.Eventually(t, query+" is not throttled", func() error {
			matches, err := cache.Match(t.Context(), query)
			if err == nil && !matches || err != nil && !strings.Contains(err.Error(), "throttled") {
				t.Fatalf("%s: got %v, %v", query, matches, err)
			}
			return err
		})
	}
}

// startPrometheus starts the installed Prometheus on a free port and waits until it has scraped
// itself.
func startPrometheus(t *testing.T) string {
	t.Helper()
	program := checkout.FindProgram(t, "prometheus")
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	for try := range 5 {
		address := freeAddress(t)
		text := fmt.Sprintf("global: {scrape_interval: 100ms}\nscrape_configs:\n- job_name: self\n  static_configs: [{targets: ['%s']}]\n", address)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		cmd := exec.CommandContext(t.Context(), program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, fmt.Sprint("data", try)), "--web.listen-address="+address)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}

		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // The process is ended by a signal.
			close(ended)
		}()
		if awaitSamples(t, address, ended) {
			t.Cleanup(func() {
				_ = cmd.Process.Signal(syscall.SIGTERM)
				<-ended
			})
			return address
		}

		if !strings.Contains(stderr.String(), "address already in use") {
			t.Fatalf("prometheus has ended:\n%s", stderr.String())
		}
	}

	t.Fatal("no free port was found for prometheus")
	return ""
}

func freeAddress(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(nil)
	defer server.Close()
	return strings.TrimPrefix(server.URL, "http://")
}

// awaitSamples waits until a Prometheus has samples of itself. It returns false if it exits.
func awaitSamples(t *testing.T, address string, ended <-chan struct{}) bool {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		select {
		case <-ended:
			return false
		case <-time.After(50 * time.Millisecond): // polls for a state
		}
		matches, err := (&Prometheus{URL: "http://" + address}).Match(t.Context(), "group(prometheus_build_info)")
		if err == nil && matches {
			return true
		}
		if time.Now().After(deadline) {
			t.Fatalf("prometheus has no samples of itself: %v", err)
		}
	}
}

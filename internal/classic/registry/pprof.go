package registry

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"
)

// newProfileMux returns a mux that serves the same profiles as net/http/pprof. That package
// registers its handlers in every program that links it. This costs each run of opm more than
// half a megabyte, and most runs serve nothing.
//
// Differences of two profiles are not served: go tool pprof computes them with -diff_base.
func newProfileMux() *http.ServeMux {
	routes := http.NewServeMux()
	routes.HandleFunc("/debug/pprof/{$}", serveProfileIndex)
	routes.HandleFunc("/debug/pprof/{name}", serveNamedProfile)
	routes.HandleFunc("/debug/pprof/cmdline", serveCommandLine)
	routes.HandleFunc("/debug/pprof/profile", serveCPUProfile)
	routes.HandleFunc("/debug/pprof/symbol", serveSymbols)
	routes.HandleFunc("/debug/pprof/trace", serveExecutionTrace)

	return routes
}

// serveProfileIndex lists the profiles.
func serveProfileIndex(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<title>/debug/pprof/</title>\n<h1>Profiles</h1>\n<p>With debug=1 they are text.</p>\n<ul>\n")
	for _, profile := range pprof.Profiles() {
		name := html.EscapeString(profile.Name())
		fmt.Fprintf(&b, "<li><a href=\"%s?debug=1\">%s</a>: %d</li>\n", name, name, profile.Count())
	}

	b.WriteString("<li><a href=\"goroutine?debug=2\">stacks of all goroutines</a></li>\n")
	b.WriteString("<li><a href=\"profile?seconds=30\">profile</a>, <a href=\"trace?seconds=1\">trace</a>: of so many seconds</li>\n")
	b.WriteString("<li><a href=\"cmdline\">cmdline</a></li>\n</ul>\n")
	setContentType(w, "text/html; charset=utf-8")
	_, _ = io.WriteString(w, b.String()) // The client has gone.
}

// setContentType sets the content type of the response.
func setContentType(w http.ResponseWriter, contentType string) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", contentType)
}

// setAttachmentHeaders marks the response as a file.
func setAttachmentHeaders(w http.ResponseWriter, name string) {
	setContentType(w, "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

// writePprofError answers with an error that go tool pprof shows, which looks for its header.
func writePprofError(w http.ResponseWriter, status int, text string) {
	w.Header().Del("Content-Disposition")
	w.Header().Set("X-Go-Pprof", "1")
	http.Error(w, text, status)
}

// serveNamedProfile serves a profile of the runtime, such as heap.
func serveNamedProfile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	profile := pprof.Lookup(name)
	switch {
	case profile == nil:
		writePprofError(w, http.StatusNotFound, "Unknown profile")
		return
	case r.FormValue("seconds") != "":
		writePprofError(w, http.StatusBadRequest, `the difference of two moments is not served: get both, and call go tool pprof with -diff_base`)
		return
	}

	// Invalid numbers count as 0, as in net/http/pprof.
	if collect, _ := strconv.Atoi(r.FormValue("gc")); name == "heap" && collect > 0 {
		runtime.GC()
	}

	debug, _ := strconv.Atoi(r.FormValue("debug"))
	if debug == 0 {
		setAttachmentHeaders(w, profile.Name())
	} else {
		setContentType(w, "text/plain; charset=utf-8")
	}

	_ = profile.WriteTo(w, debug) // The client has gone.
}

// serveCommandLine serves the command line of the program.
func serveCommandLine(w http.ResponseWriter, _ *http.Request) {
	setContentType(w, "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, strings.Join(os.Args, "\x00")) //nolint:gosec // plain text; whether the client has gone does not matter
}

// requestedDuration returns the duration in the query of a request, or defaultSeconds. It is at
// most maxProfileDuration.
func requestedDuration(r *http.Request, defaultSeconds float64) time.Duration {
	seconds, err := strconv.ParseFloat(r.FormValue("seconds"), 64)
	if err != nil || !(seconds > 0) {
		seconds = defaultSeconds
	}
	return time.Duration(min(seconds, maxProfileDuration.Seconds()) * float64(time.Second))
}

// maxProfileDuration limits the duration of a profile or trace.
const maxProfileDuration = time.Hour

// waitForRequest waits for a period, or until the client goes.
func waitForRequest(r *http.Request, period time.Duration) {
	select {
	case <-time.After(period):
	case <-r.Context().Done():
	}
}

// serveCPUProfile serves a CPU profile, of 30 s by default.
func serveCPUProfile(w http.ResponseWriter, r *http.Request) {
	setAttachmentHeaders(w, "profile")
	if err := pprof.StartCPUProfile(w); err != nil {
		writePprofError(w, http.StatusInternalServerError, "Could not enable CPU profiling: "+err.Error())
		return
	}
	defer pprof.StopCPUProfile()
	waitForRequest(r, requestedDuration(r, 30))
}

// serveExecutionTrace serves an execution trace, of 1 s by default.
func serveExecutionTrace(w http.ResponseWriter, r *http.Request) {
	setAttachmentHeaders(w, "trace")
	if err := trace.Start(w); err != nil {
		writePprofError(w, http.StatusInternalServerError, "Could not enable tracing: "+err.Error())
		return
	}
	defer trace.Stop()
	waitForRequest(r, requestedDuration(r, 1))
}

// maxSymbolRequestBytes limits the body of a request for symbols.
const maxSymbolRequestBytes = 1 << 20

// serveSymbols returns the names of the functions at addresses. The addresses are separated by
// plus signs.
func serveSymbols(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(strings.NewReader(r.URL.RawQuery))
	if r.Method == http.MethodPost {
		body = http.MaxBytesReader(w, r.Body, maxSymbolRequestBytes)
	}

	var b strings.Builder
	b.WriteString("num_symbols: 1\n") // Clients read it only as a flag.
	for reader, more := bufio.NewReader(body), true; more; {
		word, err := reader.ReadString('+')
		if err != nil && err != io.EOF { //nolint:errorlint // a Reader returns io.EOF unwrapped
			fmt.Fprintf(&b, "reading request: %v\n", err)
		}

		more = err == nil
		address, err := strconv.ParseUint(strings.TrimSuffix(word, "+"), 0, 64)
		if function := runtime.FuncForPC(uintptr(address)); err == nil && function != nil {
			fmt.Fprintf(&b, "%#x %s\n", address, function.Name())
		}
	}

	setContentType(w, "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, b.String()) // The client has gone.
}

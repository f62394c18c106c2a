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

// profileRoutes serves what net/http/pprof does, to the same tools. That package registers
// itself in every program that links it, which costs each run of opm, most of which serve
// nothing, more than half a megabyte.
//
// The difference of two moments is left to the tools: go tool pprof -diff_base.
func profileRoutes() *http.ServeMux {
	routes := http.NewServeMux()
	routes.HandleFunc("/debug/pprof/{$}", profileIndex)
	routes.HandleFunc("/debug/pprof/{name}", namedProfile)
	routes.HandleFunc("/debug/pprof/cmdline", commandLine)
	routes.HandleFunc("/debug/pprof/profile", cpuProfile)
	routes.HandleFunc("/debug/pprof/symbol", symbols)
	routes.HandleFunc("/debug/pprof/trace", executionTrace)

	return routes
}

// profileIndex lists what there is.
func profileIndex(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<title>/debug/pprof/</title>\n<h1>Profiles</h1>\n<p>With debug=1 they are text.</p>\n<ul>\n")
	for _, profile := range pprof.Profiles() {
		name := html.EscapeString(profile.Name())
		fmt.Fprintf(&b, "<li><a href=\"%s?debug=1\">%s</a>: %d</li>\n", name, name, profile.Count())
	}

	b.WriteString("<li><a href=\"goroutine?debug=2\">stacks of all goroutines</a></li>\n")
	b.WriteString("<li><a href=\"profile?seconds=30\">profile</a>, <a href=\"trace?seconds=1\">trace</a>: of so many seconds</li>\n")
	b.WriteString("<li><a href=\"cmdline\">cmdline</a></li>\n</ul>\n")
	startAnswer(w, "text/html; charset=utf-8")
	_, _ = io.WriteString(w, b.String()) // The client has gone.
}

// startAnswer says what follows.
func startAnswer(w http.ResponseWriter, contentType string) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", contentType)
}

// startFile says that a file follows.
func startFile(w http.ResponseWriter, name string) {
	startAnswer(w, "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

// refuse says to go tool pprof, which looks for the header, why there is no profile.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Del("Content-Disposition")
	w.Header().Set("X-Go-Pprof", "1")
	http.Error(w, text, status)
}

// namedProfile returns one of those that the runtime keeps, such as heap.
func namedProfile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	profile := pprof.Lookup(name)
	switch {
	case profile == nil:
		refuse(w, http.StatusNotFound, "Unknown profile")
		return
	case r.FormValue("seconds") != "":
		refuse(w, http.StatusBadRequest, `the difference of two moments is not served: get both, and call go tool pprof with -diff_base`)
		return
	}

	// What is no number is none, as with net/http/pprof.
	if collect, _ := strconv.Atoi(r.FormValue("gc")); name == "heap" && collect > 0 {
		runtime.GC()
	}

	debug, _ := strconv.Atoi(r.FormValue("debug"))
	if debug == 0 {
		startFile(w, profile.Name())
	} else {
		startAnswer(w, "text/plain; charset=utf-8")
	}

	_ = profile.WriteTo(w, debug) // The client has gone.
}

func commandLine(w http.ResponseWriter, _ *http.Request) {
	startAnswer(w, "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, strings.Join(os.Args, "\x00")) //nolint:gosec // plain text; whether the client has gone does not matter
}

// seconds is for how long something is wanted. It ends when the client goes.
func seconds(r *http.Request, standard float64) time.Duration {
	wanted, err := strconv.ParseFloat(r.FormValue("seconds"), 64)
	if err != nil || !(wanted > 0) {
		wanted = standard
	}
	return time.Duration(min(wanted, maxProfile.Seconds()) * float64(time.Second))
}

// maxProfile bounds how long a profile or trace may take.
const maxProfile = time.Hour

func wait(r *http.Request, period time.Duration) {
	select {
	case <-time.After(period):
	case <-r.Context().Done():
	}
}

func cpuProfile(w http.ResponseWriter, r *http.Request) {
	startFile(w, "profile")
	if err := pprof.StartCPUProfile(w); err != nil {
		refuse(w, http.StatusInternalServerError, "Could not enable CPU profiling: "+err.Error())
		return
	}
	defer pprof.StopCPUProfile()
	wait(r, seconds(r, 30))
}

func executionTrace(w http.ResponseWriter, r *http.Request) {
	startFile(w, "trace")
	if err := trace.Start(w); err != nil {
		refuse(w, http.StatusInternalServerError, "Could not enable tracing: "+err.Error())
		return
	}
	defer trace.Stop()
	wait(r, seconds(r, 1))
}

// maxSymbols bounds a question for names, in bytes.
const maxSymbols = 1 << 20

// symbols names the functions at addresses, which have a plus sign between them.
func symbols(w http.ResponseWriter, r *http.Request) {
	question := io.Reader(strings.NewReader(r.URL.RawQuery))
	if r.Method == http.MethodPost {
		question = http.MaxBytesReader(w, r.Body, maxSymbols)
	}

	var b strings.Builder
	b.WriteString("num_symbols: 1\n") // There are some; nobody reads how many.
	for reader, more := bufio.NewReader(question), true; more; {
		word, err := reader.ReadString('+')
		if err != nil && err != io.EOF { //nolint:errorlint // a Reader gives it as it is
			fmt.Fprintf(&b, "reading request: %v\n", err)
		}

		more = err == nil
		address, err := strconv.ParseUint(strings.TrimSuffix(word, "+"), 0, 64)
		if function := runtime.FuncForPC(uintptr(address)); err == nil && function != nil {
			fmt.Fprintf(&b, "%#x %s\n", address, function.Name())
		}
	}

	startAnswer(w, "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, b.String()) // The client has gone.
}

package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const updateGraph = `{"version":1,"nodes":[
 {"version":"1.3.7","payload":"registry.example.com/release@sha256:37","metadata":{"url":"https://example.com/1.3.7","io.openshift.upgrades.graph.release.channels":"stable-1.3,stable-1.4"}},
 {"version":"1.4.0","payload":"registry.example.com/release@sha256:40","metadata":{"io.openshift.upgrades.graph.release.channels":"stable-1.4"}},
 {"version":"1.4.1","payload":"registry.example.com/release@sha256:41","metadata":{"io.openshift.upgrades.graph.release.channels":"stable-1.4"}},
 {"version":"1.4.2","payload":"registry.example.com/release@sha256:42","metadata":{"io.openshift.upgrades.graph.release.channels":"stable-1.4"}}],
 "edges":[[0,1],[0,2],[1,2],[2,3]],
 "conditionalEdges":[{"edges":[{"from":"1.3.7","to":"1.4.2"},{"from":"1.4.0","to":"1.4.2"}],"risks":[
  {"url":"https://example.com/issues/7","name":"SlowDisks","message":"Nodes with slow disks may not come back.","matchingRules":[{"type":"PromQL","promql":{"promql":"max(slow_disks) > bool 0"}}]}]}]}`

func TestUpdatesGraph(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch channel := r.URL.Query().Get("channel"); channel {
		case "":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"kind":"missing_params","value":"mandatory client parameters missing: channel"}`)
		case "broken":
			fmt.Fprint(w, strings.Replace(updateGraph, "[2,3]", "[3,9]", 1))
		case "none":
			fmt.Fprint(w, `{"version":1,"nodes":[],"edges":[],"conditionalEdges":[]}`)
		default:
			fmt.Fprint(w, updateGraph)
		}
	}))

	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	file := filepath.Join(t.TempDir(), "graph.json")
	if err := os.WriteFile(file, []byte(updateGraph), 0o600); err != nil {
		t.Fatal(err)
	}

	url := server.URL + "/api/upgrades_info/graph"
	for name, line := range map[string]string{
		"table":      url + " --channel stable-1.4",
		"wide":       url + " --channel stable-1.4 -o wide",
		"json":       url + " --channel stable-1.4 --arch arm64 -o json",
		"from":       file + " --from 1.4.0 -o mermaid",
		"dot":        file + " -o dot",
		"svg":        file + " -o svg",
		"none":       url + " --channel none",
		"no-channel": url,
		"broken":     url + " --channel broken",
		"missing":    url + " --channel stable-1.4 --from 9.9.9",
		"gone":       gone.URL + " --channel stable-1.4",
		"no-file":    file + ".none",
		"file-of":    file + " --channel stable-1.4",
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, command{line: append([]string{"mainstay", "updates", "graph"}, strings.Fields(line)...)})
			got = strings.ReplaceAll(got, filepath.Dir(file), "FOLDER")
			golden.Check(t, "updates/graph-"+name+".txt", scrub(t, got))
		})
	}
}

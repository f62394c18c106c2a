package updateservice

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/cincinnati/graphdata"
)

// Media types of graphs and of graph-data.
const (
	typeJSON  = "application/json"
	typeGraph = "application/vnd.redhat.cincinnati.v1+json"
	typeGzip  = "application/gzip"
)

// Kinds of errors in responses.
const (
	kindMissing     = "missing_params"
	kindInvalid     = "invalid_params"
	kindContentType = "invalid_content_type"
	kindUnknownPath = "does_not_exist"
	kindMethod      = "method_not_allowed"
	kindNotYet      = "failed_upstream_fetch"
	kindFailed      = "failed_json_out"
)

// Patterns of the parameters of a request. Other parameters, such as version and id, are
// ignored.
var (
	channelPattern      = regexp.MustCompile(`^[0-9a-z\-\.]+$`)
	architecturePattern = regexp.MustCompile(`^[0-9a-z]+$`)
)

// defaultArchitecture is used for clients that name no architecture.
const defaultArchitecture = "amd64"

// maxParameterBytes is the maximum length of a channel or an architecture.
const maxParameterBytes = 256

// Handler returns the handler of requests for graphs and graph-data.
func (s *Service) Handler() http.Handler {
	prefix := "/" + strings.Trim(s.options.Prefix, "/")
	if prefix == "/" {
		prefix = ""
	}

	paths := map[string]http.HandlerFunc{
		prefix + "/graph":      s.serveGraph,
		prefix + "/v1/graph":   s.serveGraph,
		prefix + "/graph-data": s.serveGraphData,
		prefix + "/openapi":    s.serveOpenAPI(prefix),
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		w.Header().Set("Access-Control-Allow-Origin", "*")
		label, handle := r.URL.Path, paths[r.URL.Path]
		if handle == nil {
			label, handle = "other", s.serveUnknownPath
		}

		s.metrics.requests.WithLabelValues(label).Inc()
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			handle(w, r)
		} else {
			w.Header().Set("Allow", "GET, HEAD")
			s.writeErrorResponse(w, http.StatusMethodNotAllowed, kindMethod, "graphs are read with GET or HEAD")
		}

		s.metrics.duration.Observe(time.Since(began).Seconds())
	})
}

func (s *Service) serveUnknownPath(w http.ResponseWriter, r *http.Request) {
	s.writeErrorResponse(w, http.StatusNotFound, kindUnknownPath, fmt.Sprintf("%.256s does not exist", r.URL.Path))
}

// writeErrorResponse writes an error response in the format of the protocol.
func (s *Service) writeErrorResponse(w http.ResponseWriter, code int, kind, value string) {
	s.metrics.errors.WithLabelValues(strconv.Itoa(code), kind).Inc()
	body, _ := json.Marshal(struct { // strings can always be marshaled
		Kind  string `json:"kind"`
		Value string `json:"value"`
	}{kind, value})
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(body) // The client may be gone.
}

// serveGraph serves the graph of a channel.
func (s *Service) serveGraph(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Vary", "Accept, Accept-Encoding")
	mediaType := negotiateMediaType(r.Header.Values("Accept"))
	if mediaType == "" {
		s.writeErrorResponse(w, http.StatusNotAcceptable, kindContentType, "invalid Content-Type requested: graphs are "+typeJSON+" or "+typeGraph)
		return
	}

	query, kind, message := parseGraphQuery(r.URL.RawQuery)
	if message != "" {
		s.writeErrorResponse(w, http.StatusBadRequest, kind, message)
		return
	}

	current := s.currentSnapshot(w)
	if current == nil {
		return
	}

	found, err := current.responseFor(query)
	if err != nil {
		s.options.Log.Error(err, "Failed to serve a graph", "channel", query.Channel, "architecture", query.Architecture)
		s.writeErrorResponse(w, http.StatusInternalServerError, kindFailed, "the graph cannot be served")
		return
	}

	writeGraphResponse(w, r, found, mediaType)
}

// currentSnapshot returns the snapshot to serve. If there is none yet, it writes an error
// response and returns nil.
func (s *Service) currentSnapshot(w http.ResponseWriter) *snapshot {
	current := s.current.Load()
	if current == nil {
		w.Header().Set("Retry-After", "10")
		s.writeErrorResponse(w, http.StatusInternalServerError, kindNotYet, "there is no update graph yet")
	}
	return current
}

// serveGraphData serves the graph-data folder of the current graph, for sites with an update
// service of their own.
func (s *Service) serveGraphData(w http.ResponseWriter, r *http.Request) {
	current := s.currentSnapshot(w)
	if current == nil {
		return
	}
	if current.folder == nil {
		s.writeErrorResponse(w, http.StatusNotFound, kindUnknownPath, "this service has no graph-data: releases name their channels themselves")
		return
	}

	header := w.Header()
	header.Set("ETag", `"`+current.folder.tag+`"`)
	if matchesETag(r.Header.Values("If-None-Match"), current.folder.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}

	header.Set("Content-Type", typeGzip)
	header.Set("Content-Length", strconv.Itoa(len(current.folder.packed)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(current.folder.packed) // The client may be gone.
	}
}

// writeGraphResponse writes a graph, or 304 if the client already has it.
func writeGraphResponse(w http.ResponseWriter, r *http.Request, found *graphResponse, mediaType string) {
	header := w.Header()
	body, tag := found.plain, `"`+found.tag+`"`
	if acceptsGzip(r.Header.Values("Accept-Encoding")) {
		body, tag = found.packed, `"`+found.tag+`-gzip"`
		header.Set("Content-Encoding", "gzip")
	}

	header.Set("ETag", tag)
	if matchesETag(r.Header.Values("If-None-Match"), found.tag) {
		header.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}

	header.Set("Content-Type", mediaType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}

	_, _ = w.Write(body) //nolint:gosec // a graph as JSON, and the client may be gone
}

// parseGraphQuery parses the parameters. On error it returns the kind and the text of the error.
func parseGraphQuery(raw string) (q graphdata.Query, kind, message string) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, kindInvalid, "invalid client parameters: they cannot be read"
	}
	if !values.Has("channel") {
		return q, kindMissing, "mandatory client parameters missing: channel"
	}

	q.Channel, q.Architecture = values.Get("channel"), defaultArchitecture
	if values.Has("arch") {
		q.Architecture = values.Get("arch")
	}

	for _, parameter := range []struct {
		name, value string
		pattern     *regexp.Regexp
	}{{"channel", q.Channel, channelPattern}, {"arch", q.Architecture, architecturePattern}} {
		if len(parameter.value) > maxParameterBytes || !parameter.pattern.MatchString(parameter.value) {
			return q, kindInvalid, fmt.Sprintf("invalid client parameters: %s '%.256s' does not match regex '%s'", parameter.name, parameter.value, parameter.pattern)
		}
	}

	return q, "", ""
}

// negotiateMediaType returns the media type of the response for the Accept headers; "" if none
// is acceptable.
func negotiateMediaType(lines []string) string {
	if len(lines) == 0 {
		return typeJSON
	}

	best := ""
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			kind, params, err := mime.ParseMediaType(part)
			if weight, parseErr := strconv.ParseFloat(params["q"], 64); err != nil || parseErr == nil && weight <= 0 {
				continue
			}
			switch kind {
			case typeJSON, "application/*", "*/*":
				return typeJSON
			case typeGraph:
				best = typeGraph
			}
		}
	}

	return best
}

func acceptsGzip(lines []string) bool {
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			coding, params, _ := strings.Cut(part, ";")
			if coding = strings.ToLower(strings.TrimSpace(coding)); coding != "gzip" && coding != "*" {
				continue
			}
			name, value, _ := strings.Cut(strings.TrimSpace(params), "=")
			if weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64); !strings.EqualFold(name, "q") || err != nil || weight > 0 {
				return true
			}
		}
	}

	return false
}

// matchesETag reports whether a client already has a response, in any encoding.
func matchesETag(lines []string, tag string) bool {
	for _, line := range lines {
		for known := range strings.SplitSeq(line, ",") {
			known = strings.Trim(strings.TrimPrefix(strings.TrimSpace(known), "W/"), `"`)
			if known == "*" || strings.TrimSuffix(known, "-gzip") == tag {
				return true
			}
		}
	}

	return false
}

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

// Media types of graphs.
const (
	typeJSON  = "application/json"
	typeGraph = "application/vnd.redhat.cincinnati.v1+json"
	typeGzip  = "application/gzip"
)

// Kinds of errors, as clients are told.
const (
	kindMissing     = "missing_params"
	kindInvalid     = "invalid_params"
	kindContentType = "invalid_content_type"
	kindUnknownPath = "does_not_exist"
	kindMethod      = "method_not_allowed"
	kindNotYet      = "failed_upstream_fetch"
	kindFailed      = "failed_json_out"
)

// The parameters of a request. Others, those of version and id among them, are not used.
var (
	channelPattern      = regexp.MustCompile(`^[0-9a-z\-\.]+$`)
	architecturePattern = regexp.MustCompile(`^[0-9a-z]+$`)
)

// defaultArchitecture is that of clients that name none.
const defaultArchitecture = "amd64"

// maxParameter bounds a channel and an architecture, in bytes.
const maxParameter = 256

// Handler answers requests for graphs.
func (s *Service) Handler() http.Handler {
	prefix := "/" + strings.Trim(s.options.Prefix, "/")
	if prefix == "/" {
		prefix = ""
	}

	paths := map[string]http.HandlerFunc{
		prefix + "/graph":      s.graph,
		prefix + "/v1/graph":   s.graph,
		prefix + "/graph-data": s.graphData,
		prefix + "/openapi":    s.openAPI(prefix),
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		w.Header().Set("Access-Control-Allow-Origin", "*")
		label, handle := r.URL.Path, paths[r.URL.Path]
		if handle == nil {
			label, handle = "other", s.unknownPath
		}

		s.metrics.requests.WithLabelValues(label).Inc()
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			handle(w, r)
		} else {
			w.Header().Set("Allow", "GET, HEAD")
			s.refuse(w, http.StatusMethodNotAllowed, kindMethod, "graphs are read with GET or HEAD")
		}

		s.metrics.duration.Observe(time.Since(began).Seconds())
	})
}

func (s *Service) unknownPath(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, http.StatusNotFound, kindUnknownPath, fmt.Sprintf("%.256s does not exist", r.URL.Path))
}

// refuse answers with an error, as the protocol has it.
func (s *Service) refuse(w http.ResponseWriter, code int, kind, value string) {
	s.metrics.errors.WithLabelValues(strconv.Itoa(code), kind).Inc()
	body, _ := json.Marshal(struct { // texts can be written
		Kind  string `json:"kind"`
		Value string `json:"value"`
	}{kind, value})
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(body) // The client may be gone.
}

// graph answers with the graph of a channel.
func (s *Service) graph(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Vary", "Accept, Accept-Encoding")
	mediaType := acceptable(r.Header.Values("Accept"))
	if mediaType == "" {
		s.refuse(w, http.StatusNotAcceptable, kindContentType, "invalid Content-Type requested: graphs are "+typeJSON+" or "+typeGraph)
		return
	}

	query, kind, wrong := parseQuery(r.URL.RawQuery)
	if wrong != "" {
		s.refuse(w, http.StatusBadRequest, kind, wrong)
		return
	}

	current := s.made(w)
	if current == nil {
		return
	}

	found, err := current.answer(query)
	if err != nil {
		s.options.Log.Error(err, "A graph cannot be served", "channel", query.Channel, "architecture", query.Architecture)
		s.refuse(w, http.StatusInternalServerError, kindFailed, "the graph cannot be served")
		return
	}

	send(w, r, found, mediaType)
}

// made returns what is served. Before there is anything, it answers that.
func (s *Service) made(w http.ResponseWriter) *snapshot {
	current := s.current.Load()
	if current == nil {
		w.Header().Set("Retry-After", "10")
		s.refuse(w, http.StatusInternalServerError, kindNotYet, "no update graph was made yet")
	}
	return current
}

// graphData answers with the graph-data folder that the graph was made of, for sites that
// have a service of their own.
func (s *Service) graphData(w http.ResponseWriter, r *http.Request) {
	current := s.made(w)
	if current == nil {
		return
	}
	if current.folder == nil {
		s.refuse(w, http.StatusNotFound, kindUnknownPath, "this service has no graph-data: releases name their channels themselves")
		return
	}

	header := w.Header()
	header.Set("ETag", `"`+current.folder.tag+`"`)
	if hasTag(r.Header.Values("If-None-Match"), current.folder.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}

	header.Set("Content-Type", typeGzip)
	header.Set("Content-Length", strconv.Itoa(len(current.folder.packed)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(current.folder.packed) // The client may be gone.
	}
}

// send sends a graph, unless the client has it already.
func send(w http.ResponseWriter, r *http.Request, found *answer, mediaType string) {
	header := w.Header()
	body, tag := found.plain, `"`+found.tag+`"`
	if acceptsGzip(r.Header.Values("Accept-Encoding")) {
		body, tag = found.packed, `"`+found.tag+`-gzip"`
		header.Set("Content-Encoding", "gzip")
	}

	header.Set("ETag", tag)
	if hasTag(r.Header.Values("If-None-Match"), found.tag) {
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

// parseQuery reads the parameters, or says what is wrong with them.
func parseQuery(raw string) (q graphdata.Query, kind, wrong string) {
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
		if len(parameter.value) > maxParameter || !parameter.pattern.MatchString(parameter.value) {
			return q, kindInvalid, fmt.Sprintf("invalid client parameters: %s '%.256s' does not match regex '%s'", parameter.name, parameter.value, parameter.pattern)
		}
	}

	return q, "", ""
}

// acceptable returns the media type that a client is answered in, or nothing.
func acceptable(lines []string) string {
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

// hasTag reports whether a client has an answer, in whatever encoding.
func hasTag(lines []string, tag string) bool {
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

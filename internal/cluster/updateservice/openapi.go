package updateservice

import (
	"encoding/json"
	"net/http"
)

// serveOpenAPI returns a handler that describes the protocol as an OpenAPI document.
func (s *Service) serveOpenAPI(prefix string) http.HandlerFunc {
	parameter := func(name, pattern, description string, required bool) map[string]any {
		schema := map[string]any{"type": "string"}
		if pattern != "" {
			schema["pattern"] = pattern
		}
		return map[string]any{"in": "query", "name": name, "required": required, "description": description, "schema": schema}
	}

	texts := map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	array := func(items map[string]any) map[string]any { return map[string]any{"type": "array", "items": items} }
	text := map[string]any{"type": "string"}
	graph := object(map[string]any{
		"version": map[string]any{"type": "integer"},
		"nodes":   array(object(map[string]any{"version": text, "payload": text, "metadata": texts})),
		"edges":   array(map[string]any{"type": "array", "items": map[string]any{"type": "integer"}, "minItems": 2, "maxItems": 2}),
		"conditionalEdges": array(object(map[string]any{
			"edges": array(object(map[string]any{"from": text, "to": text})),
			"risks": array(object(map[string]any{"url": text, "name": text, "message": text, "matchingRules": array(map[string]any{"type": "object"})})),
		})),
	})

	failure := func(description string) map[string]any {
		return map[string]any{
			"description": description,
			"content":     map[string]any{typeJSON: map[string]any{"schema": object(map[string]any{"kind": text, "value": text})}},
		}
	}

	content := map[string]any{"schema": graph}
	operation := map[string]any{"get": map[string]any{
		"operationId": "graph",
		"summary":     "The update graph of a channel",
		"parameters": []any{
			parameter("channel", channelPattern.String(), "channel that the cluster follows", true),
			parameter("arch", architecturePattern.String(), "architecture of the cluster; amd64 unless it is named", false),
			parameter("version", "", "version of the cluster; not used", false),
			parameter("id", "", "identity of the cluster; not used", false),
		},
		"responses": map[string]any{
			"200": map[string]any{"description": "the graph", "content": map[string]any{typeJSON: content, typeGraph: content}},
			"400": failure("a parameter is missing or invalid"),
			"406": failure("no media type of graphs is accepted"),
			"500": failure("there is no graph yet"),
		},
	}}

	body, _ := json.Marshal(map[string]any{ // strings can always be marshaled
		"openapi": "3.0.3",
		"info":    map[string]any{"title": "Update service", "version": "1"},
		"paths": map[string]any{prefix + "/graph": operation, prefix + "/v1/graph": operation, prefix + "/graph-data": map[string]any{"get": map[string]any{
			"operationId": "graph-data",
			"summary":     "The graph-data folder that graphs are made of, as a .tar.gz",
			"responses": map[string]any{
				"200": map[string]any{"description": "the folder", "content": map[string]any{typeGzip: map[string]any{"schema": map[string]any{"type": "string", "format": "binary"}}}},
				"404": failure("there is no graph-data"),
				"500": failure("there is no graph yet"),
			},
		}}},
	})

	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		_, _ = w.Write(body) // The client may be gone.
	}
}

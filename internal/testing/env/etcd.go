package env

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// etcd is a client of the HTTP gateway of etcd.
type etcd struct{ url *url.URL }

// entry is a key of etcd with its value. Numbers are strings, as in the JSON form of protocol buffers.
type entry struct {
	Key         []byte `json:"key"`
	Value       []byte `json:"value,omitempty"`
	ModRevision string `json:"mod_revision,omitempty"`
}

// postJSON sends a request to a path of the gateway.
func (e etcd) postJSON(ctx context.Context, path string, body, answer any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.JoinPath("v3", path).String(), bytes.NewReader(encoded))
	if err != nil {
		return err
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("sending a request to etcd: %w", err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s to %s: %s (error %w)", response.Status, path, read, err)
	}
	return json.Unmarshal(read, answer)
}

// Everything that API servers store has this prefix. allEnd is the first key after it.
const (
	allPrefix = "/registry/"
	allEnd    = "/registry0"
)

// list returns all objects of the API server by key.
func (e etcd) list(ctx context.Context, keysOnly bool) (map[string]entry, error) {
	var answer struct {
		KVs []entry `json:"kvs"`
	}
	body := map[string]any{"key": []byte(allPrefix), "range_end": []byte(allEnd), "keys_only": keysOnly}
	if err := e.postJSON(ctx, "kv/range", body, &answer); err != nil {
		return nil, err
	}

	entries := make(map[string]entry, len(answer.KVs))
	for _, kv := range answer.KVs {
		entries[string(kv.Key)] = kv
	}
	return entries, nil
}

// operation is one operation of a transaction: either of its fields is set.
type operation struct {
	Put    *entry `json:"request_put,omitempty"`
	Delete *entry `json:"request_delete_range,omitempty"`
}

// maxOperations is the limit of this package for the operations of one transaction. That of etcd is 128.
const maxOperations = 100

// commitOperations executes the operations in one transaction, and returns its revision.
func (e etcd) commitOperations(ctx context.Context, operations []operation) (revision string, err error) {
	var answer struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	err = e.postJSON(ctx, "kv/txn", map[string]any{"success": operations}, &answer)
	return answer.Header.Revision, err
}

package updateservice

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/cincinnati/graphdata"
)

// maxCachedBytes is the maximum total size of cached responses: 100 channels of 1,000 releases
// fit. Responses beyond it are built for each request.
const maxCachedBytes = 256 << 20

// graphResponse is an encoded graph.
type graphResponse struct {
	plain, packed []byte
	tag           string // the hash of plain
}

// graphDataArchive is a graph-data folder as a .tar.gz.
type graphDataArchive struct {
	packed []byte
	tag    string
}

// snapshot is a graph and its cached responses. It is safe for concurrent use.
type snapshot struct {
	graph         *graphdata.Graph
	responses     map[graphdata.Query]*responseEntry
	emptyResponse *graphResponse
	// folder is the archive of the graph-data; nil if there is none.
	folder *graphDataArchive

	mu          sync.Mutex
	cachedBytes int // bytes
}

// responseEntry is a response that is built on first use.
type responseEntry struct {
	mu       sync.Mutex
	response *graphResponse
}

func newSnapshot(graph *graphdata.Graph, data *graphdata.Data) (*snapshot, error) {
	s := &snapshot{graph: graph, responses: map[graphdata.Query]*responseEntry{}}
	if packed := data.Archive(); packed != nil {
		s.folder = &graphDataArchive{packed, newETag(packed)}
	}

	for _, q := range graph.Queries() {
		s.responses[q] = &responseEntry{}
	}

	var err error
	s.emptyResponse, err = newGraphResponse(graph, graphdata.Query{})
	return s, err
}

// responseFor returns the response to a query. For unknown channels it is an empty graph.
func (s *snapshot) responseFor(q graphdata.Query) (*graphResponse, error) {
	e := s.responses[q]
	if e == nil {
		return s.emptyResponse, nil
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.response != nil {
		return e.response, nil
	}

	response, err := newGraphResponse(s.graph, q)
	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	if size := len(response.plain) + len(response.packed); s.cachedBytes+size <= maxCachedBytes {
		s.cachedBytes += size
		e.response = response
	}

	s.mu.Unlock()
	return response, nil
}

func newGraphResponse(graph *graphdata.Graph, q graphdata.Query) (*graphResponse, error) {
	part := graph.Channel(q)
	if err := part.Check(); err != nil {
		return nil, fmt.Errorf("clients would refuse the graph of channel %s for %s: %w", q.Channel, q.Architecture, err)
	}

	plain, err := part.Encode()
	if err == nil && len(plain) > cincinnati.MaxBytes {
		err = fmt.Errorf("it has %d bytes, and clients read %d", len(plain), cincinnati.MaxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the graph of channel %s for %s: %w", q.Channel, q.Architecture, err)
	}

	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(plain)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}

	return &graphResponse{plain: plain, packed: packed.Bytes(), tag: newETag(plain)}, nil
}

func newETag(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

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

// maxKept bounds the answers that are kept, in bytes. Those beyond it are made each time:
// 100 channels of 1,000 releases fit.
const maxKept = 256 << 20

// answer is a graph as it is sent.
type answer struct {
	plain, packed []byte
	tag           string // the sum of the plain bytes
}

// folder is a graph-data folder as a .tar.gz.
type folder struct {
	packed []byte
	tag    string
}

// snapshot is a graph, and the answers that were made of it. It is safe for concurrent use.
type snapshot struct {
	graph   *graphdata.Graph
	answers map[graphdata.Query]*entry
	nothing *answer
	// folder is the graph-data that it was made of, packed; nil when there is none.
	folder *folder

	mu   sync.Mutex
	kept int // bytes
}

// entry is an answer that is made when it is first asked for.
type entry struct {
	mu     sync.Mutex
	answer *answer
}

func newSnapshot(graph *graphdata.Graph, data *graphdata.Data) (*snapshot, error) {
	s := &snapshot{graph: graph, answers: map[graphdata.Query]*entry{}}
	if packed := data.Archive(); packed != nil {
		s.folder = &folder{packed, tagOf(packed)}
	}

	for _, q := range graph.Queries() {
		s.answers[q] = &entry{}
	}

	var err error
	s.nothing, err = newAnswer(graph, graphdata.Query{})
	return s, err
}

// answer returns the answer to a query. What nobody has a release of is an empty graph.
func (s *snapshot) answer(q graphdata.Query) (*answer, error) {
	e := s.answers[q]
	if e == nil {
		return s.nothing, nil
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answer != nil {
		return e.answer, nil
	}

	made, err := newAnswer(s.graph, q)
	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	if size := len(made.plain) + len(made.packed); s.kept+size <= maxKept {
		s.kept += size
		e.answer = made
	}

	s.mu.Unlock()
	return made, nil
}

func newAnswer(graph *graphdata.Graph, q graphdata.Query) (*answer, error) {
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

	return &answer{plain: plain, packed: packed.Bytes(), tag: tagOf(plain)}, nil
}

func tagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

package packageserver

import (
	"context"
	"sync"
	"time"
)

const (
	// maxCatalogSilence is how long the other catalogs wait for the next response of the catalog that is being read.
	maxCatalogSilence = time.Second
	// maxReadingTurn is how long the other catalogs wait for a catalog that responds. The largest take about 10 s to read.
	maxReadingTurn = 30 * time.Second
)

// readingTurns lets catalogs be read one after the other, because each takes memory while it is read. The next catalog is
// also read when the current one is silent or slow. It is safe for concurrent use.
type readingTurns struct{ taken chan struct{} }

func newReadingTurns() readingTurns { return readingTurns{make(chan struct{}, 1)} }

// beginTurn waits until a catalog may be read. It returns an error if the context ends first.
func (t readingTurns) beginTurn(ctx context.Context) (*readingTurn, error) {
	select {
	case t.taken <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	release := sync.OnceFunc(func() { <-t.taken })
	return &readingTurn{release: release, silence: time.AfterFunc(maxCatalogSilence, release), lastExtension: time.Now().Add(maxReadingTurn)}, nil
}

// readingTurn is the turn of one catalog. It is safe for concurrent use.
type readingTurn struct {
	// release lets the next catalog be read. Only the first call has an effect.
	release func()
	// silence calls release when the catalog has been silent for too long.
	silence *time.Timer
	// lastExtension is when responses no longer extend the turn.
	lastExtension time.Time
}

// extendTurn records that the catalog has responded.
func (t *readingTurn) extendTurn() {
	if time.Now().Before(t.lastExtension) {
		t.silence.Reset(maxCatalogSilence)
	}
}

// endTurn ends the turn, if it has not ended before.
func (t *readingTurn) endTurn() {
	t.silence.Stop()
	t.release()
}

package installplan

import (
	"context"
	"sync"
)

// warnings collects the warnings of the API server during a step.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

type warningsKey struct{}

// collectWarnings returns a context whose requests add their warnings to the returned collection.
func collectWarnings(ctx context.Context) (context.Context, *warnings) {
	w := &warnings{}
	return context.WithValue(ctx, warningsKey{}, w), w
}

func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.texts
}

// warningCollector adds a warning to the collection in the context of its request.
type warningCollector struct{}

// codeMiscellaneous is the HTTP warning code for messages to users.
const codeMiscellaneous = 299

func (warningCollector) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	w, ok := ctx.Value(warningsKey{}).(*warnings)
	if !ok || code != codeMiscellaneous || text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
)

// watchTime is how long a watch lasts that does not say how long: this, and at random up to twice it,
// so that clients do not all come back at once.
const watchTime = 30 * time.Minute

// watch tells a client what changes. What it is told is the difference between two snapshots, so that
// nothing is kept for it. It begins at the version that its list had, of whichever replica; when that
// one is not held any more, the client has to list again.
func (h *Handler) watch(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) error {
	f, err := h.formOf(r)
	if err != nil {
		return err
	}

	q, err := h.query(r, info)
	if err != nil {
		return err
	}

	snapshot, changed := h.Index.Snapshot()
	version := q.options.ResourceVersion
	initial := version == "" || version == "0"
	if send := q.options.SendInitialEvents; send != nil {
		if q.options.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
			return apierrors.NewBadRequest("sendInitialEvents needs resourceVersionMatch=NotOlderThan")
		}
		initial = *send
	}

	if !initial && version != "" && version != "0" && version != snapshot.Version() {
		return apierrors.NewResourceExpired(fmt.Sprintf("resource version %s is not held any more: list again", version))
	}

	lasts := watchTime + rand.N(watchTime) //nolint:gosec // It guards nothing.
	if seconds := q.options.TimeoutSeconds; seconds != nil && *seconds > 0 {
		lasts = time.Duration(min(*seconds, int64(2*watchTime/time.Second))) * time.Second
	}

	ctx, cancel := context.WithTimeout(r.Context(), lasts)
	defer cancel()

	w.Header().Set("Content-Type", typeJSON)
	s := &stream{w: w, control: http.NewResponseController(w), form: f}
	if initial {
		for item := range q.items(snapshot) {
			s.send(string(watch.Added), item, snapshot.Version())
		}
		if q.options.AllowWatchBookmarks && q.options.SendInitialEvents != nil {
			s.bookmark(snapshot.Version(), true)
		}
	}

	for s.flush() == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-stopping(ctx):
			return nil
		case <-changed:
		}

		before := snapshot
		snapshot, changed = h.Index.Snapshot()
		s.sendChanges(before, snapshot, q)
		if q.options.AllowWatchBookmarks {
			s.bookmark(snapshot.Version(), false)
		}
	}

	h.Log.V(1).Info("A watch has ended", "error", s.err.Error())
	return nil // The client is gone, or does not read.
}

// stream writes events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	form    form
	buffer  []byte
	err     error
}

// sendChanges sends the difference between two snapshots. Only the last event has the version of the
// new one: a client that comes back after an earlier one has not seen all of it.
func (s *stream) sendChanges(before, now *index.Snapshot, q query) {
	var last *index.Change
	for change := range now.Changes(before, q.view) {
		if q.name != "" && change.Item.Package.Name != q.name {
			continue
		}
		if last != nil {
			s.send(string(last.Type), last.Item, before.Version())
		}
		last = &change
	}

	if last != nil {
		s.send(string(last.Type), last.Item, now.Version())
	}
}

func (s *stream) send(event string, item index.Item, version string) {
	if s.err != nil {
		return
	}

	s.buffer = fmt.Appendf(s.buffer, `{"type":%q,"object":`, event)
	if s.buffer, s.err = s.form.appendObject(s.buffer, item, version); s.err != nil {
		return
	}

	s.buffer = append(s.buffer, "}\n"...)
	if len(s.buffer) >= bodyBuffer {
		s.write()
	}
}

func (s *stream) bookmark(version string, initial bool) {
	object, err := s.form.bookmark(version, initial)
	if s.err == nil {
		s.err = err
	}
	s.buffer = fmt.Appendf(s.buffer, "{\"type\":%q,\"object\":%s}\n", watch.Bookmark, object)
}

func (s *stream) write() {
	if s.err == nil {
		// A connection that has no deadlines is one of a test.
		_ = s.control.SetWriteDeadline(time.Now().Add(patience))
		_, s.err = s.w.Write(s.buffer)
	}
	s.buffer = s.buffer[:0]
}

// flush sends what was written so far, and gives the first error.
func (s *stream) flush() error {
	s.write()
	if s.err == nil {
		s.err = s.control.Flush()
	}
	if s.err == nil {
		// Nothing may be sent for long.
		_ = s.control.SetWriteDeadline(time.Time{})
	}
	return s.err
}

package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/index"
)

// minWatchTimeout is the shortest default duration of a watch. The duration is random between
// it and twice as long, so that clients do not all reconnect at once.
const minWatchTimeout = 30 * time.Minute

// serveWatch sends changes to a client. It computes them as the difference between two
// snapshots, so no state is kept for a watch. A watch starts at the version that the client's
// list had on any replica. If that is not the current version, the client has to list again.
func (h *Handler) serveWatch(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) error {
	f, err := h.negotiateFormat(r)
	if err != nil {
		return err
	}

	q, err := h.parseListQuery(r, info)
	if err != nil {
		return err
	}

	snapshot, changed := h.Index.Snapshot()
	initial, err := wantsInitialEvents(&q.options, snapshot.Version())
	if err != nil {
		return err
	}

	timeout := minWatchTimeout + rand.N(minWatchTimeout) //nolint:gosec // The random number is not used for security.
	if seconds := q.options.TimeoutSeconds; seconds != nil && *seconds > 0 {
		timeout = time.Duration(min(*seconds, int64(2*minWatchTimeout/time.Second))) * time.Second
	}

	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()

	w.Header().Set("Content-Type", mediaTypeJSON)
	s := &watchStream{w: w, controller: http.NewResponseController(w), form: f}
	if initial {
		for item := range q.selectItems(snapshot) {
			s.sendEvent(string(watch.Added), item, snapshot.Version())
		}
		if q.options.AllowWatchBookmarks && q.options.SendInitialEvents != nil {
			s.sendBookmark(snapshot.Version(), true)
		}
	}

	for s.flush() == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-serverStopped(ctx):
			return nil
		case <-changed:
		}

		before := snapshot
		snapshot, changed = h.Index.Snapshot()
		s.sendChanges(before, snapshot, q)
		if q.options.AllowWatchBookmarks {
			s.sendBookmark(snapshot.Version(), false)
		}
	}

	h.Log.V(1).Info("Watch ended", "error", s.err.Error())
	return nil // The client has disconnected or does not read.
}

// wantsInitialEvents reports whether a watch starts with an event for each present object. It returns an error for a
// version from which a watch cannot start.
func wantsInitialEvents(options *internalversion.ListOptions, current string) (bool, error) {
	version := options.ResourceVersion
	initial := version == "" || version == "0"
	if send := options.SendInitialEvents; send != nil {
		if options.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
			return false, apierrors.NewBadRequest("sendInitialEvents needs resourceVersionMatch=NotOlderThan")
		}
		initial = *send
	}

	if !initial && version != "" && version != "0" && version != current {
		return false, apierrors.NewResourceExpired(fmt.Sprintf("resource version %s is too old: list again", version))
	}
	return initial, nil
}

// watchStream writes the events of a watch.
type watchStream struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	form       responseFormat
	buffer     []byte
	err        error
}

// sendChanges sends the differences between two snapshots. Only the last event has the new
// version: a client that reconnects with an earlier version has not seen all changes.
func (s *watchStream) sendChanges(before, now *index.Snapshot, q listQuery) {
	var last *index.Change
	for change := range now.Changes(before, q.view) {
		if q.name != "" && change.Item.Package.Name != q.name {
			continue
		}
		if last != nil {
			s.sendEvent(string(last.Type), last.Item, before.Version())
		}
		last = &change
	}

	if last != nil {
		s.sendEvent(string(last.Type), last.Item, now.Version())
	}
}

// sendEvent writes an event to the buffer.
func (s *watchStream) sendEvent(event string, item index.Item, version string) {
	if s.err != nil {
		return
	}

	s.buffer = fmt.Appendf(s.buffer, `{"type":%q,"object":`, event)
	if s.buffer, s.err = s.form.appendSingleObject(s.buffer, item, version); s.err != nil {
		return
	}

	s.buffer = append(s.buffer, "}\n"...)
	if len(s.buffer) >= bodyBufferBytes {
		s.writeBuffer()
	}
}

// sendBookmark writes a bookmark to the buffer.
func (s *watchStream) sendBookmark(version string, initial bool) {
	object, err := s.form.marshalBookmark(version, initial)
	if s.err == nil {
		s.err = err
	}
	s.buffer = fmt.Appendf(s.buffer, "{\"type\":%q,\"object\":%s}\n", watch.Bookmark, object)
}

func (s *watchStream) writeBuffer() {
	if s.err == nil {
		// Only connections of tests do not support deadlines.
		_ = s.controller.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, s.err = s.w.Write(s.buffer)
	}
	s.buffer = s.buffer[:0]
}

// flush sends the buffered events and returns the first error of the stream.
func (s *watchStream) flush() error {
	s.writeBuffer()
	if s.err == nil {
		s.err = s.controller.Flush()
	}
	if s.err == nil {
		// There may be no changes for a long time.
		_ = s.controller.SetWriteDeadline(time.Time{})
	}
	return s.err
}

package image

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestTransfersAreBounded limits a client to one image at a time, with a registry that
// stops in the middle of an image.
func TestTransfersAreBounded(t *testing.T) {
	received, release := make(chan struct{}, 1), make(chan struct{})
	isHeld := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/held/blobs/")
	}
	var blobs atomic.Int32
	host := newRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if isHeld(r) {
			// The configuration comes first, when the image is opened.
			if blobs.Add(1) == 2 {
				received <- struct{}{}
				<-release
			}
		}
		return false
	})

	held, other := pushImage(t, host+"/test/held:v1", catalogImage(t)), pushImage(t, host+"/test/other:v1", catalogImage(t))
	client := NewClient(Options{MaxTransfers: 1})
	first := make(chan error, 1)
	go func() {
		_, err := pullAndExtract(t.Context(), t, client, held, "/configs")
		first <- err
	}()
	<-received

	// The manifest of another image is read meanwhile, but its files must wait.
	ctx, cancel := context.WithCancel(t.Context())
	img, err := client.Pull(ctx, other)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = img.Close() }()

	waiting := make(chan error, 1)
	go func() {
		_, err := img.Extract(ctx, "/configs", t.TempDir())
		waiting <- err
	}()
	select {
	case err := <-waiting:
		t.Errorf("got a second image unpacked during the first (error %v), want it to wait", err)
	case err := <-first:
		t.Errorf("got the first image unpacked (error %v) while its registry does not respond, want it to wait", err)
	default:
	}

	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with a canceled context: got error %v, want %v", err, context.Canceled)
	}

	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if _, err := pullAndExtract(t.Context(), t, client, other, "/configs"); err != nil {
		t.Errorf("after the first image: got error %v, want none", err)
	}
}

package mortal_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/testing/mortal"
)

// The second write is the last request that reaches the server. Later requests return ErrDead.
func TestAProgramDiesAtItsLastWrite(t *testing.T) {
	var arrived []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived = append(arrived, r.Method)
	}))
	defer server.Close()
	heard := make(chan []error, 1)
	life := mortal.Start(t.Context(), &rest.Config{Host: server.URL}, 2, func(ctx context.Context, connection *rest.Config) {
		var errs []error
		defer func() { heard <- errs }()
		c, err := rest.HTTPClientFor(connection)
		if err != nil {
			errs = append(errs, err)
			return
		}

		for _, method := range []string{"GET", "POST", "GET", "PUT", "GET", "DELETE"} {
			request, err := http.NewRequestWithContext(ctx, method, server.URL, http.NoBody)
			if err == nil {
				var response *http.Response
				if response, err = c.Do(request); err == nil {
					err = response.Body.Close()
				}
			}
			errs = append(errs, err)
		}
	})

	errs := <-heard
	if !life.IsDead() {
		t.Error("the program is not dead after its last write")
	}

	life.Kill()
	want := []string{"GET", "POST", "GET", "PUT"}
	if len(arrived) != len(want) {
		t.Fatalf("got requests %v at the server, want %v", arrived, want)
	}

	for i, err := range errs {
		if dead := errors.Is(err, mortal.ErrDead); dead != (i >= len(want)) {
			t.Errorf("request %d: got error %v", i, err)
		}
	}
}

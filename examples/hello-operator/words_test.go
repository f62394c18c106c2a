package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestWordServer(t *testing.T) {
	handler := (&wordServer{word: "Good day"}).newHandler()
	for path, want := range map[string]string{
		wordsPath:                     `"groupVersion":"words.hello.example.com/v1","resources":[{"name":"words"`,
		wordsPath + "/words/greeting": `"word":"Good day"`,
		wordsPath + "/words/other":    "404 page not found",
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if got := w.Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// Requests are answered for some time after the signal to stop.
func TestDelayCancellation(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	delayed := delayCancellation(ctx, time.Millisecond)
	if err := delayed.Err(); err != nil {
		t.Errorf("before the signal: got %v, want no error", err)
	}
	stop()
	<-delayed.Done()
}

// Connections are closed after the signal to stop, and kept before.
func TestCloseConnections(t *testing.T) {
	signalled, stop := context.WithCancel(t.Context())
	defer stop()
	handler := (&operatorOptions{signalled: signalled}).closeConnections(http.NotFoundHandler())
	for _, want := range []string{"", "close"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if got := w.Header().Get("Connection"); got != want {
			t.Errorf("got the header Connection: %q, want %q", got, want)
		}
		stop()
	}
}

func TestConditionPatch(t *testing.T) {
	patch, err := newConditionPatch(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}

	const want = `{"spec":{"conditions":[{"type":"Upgradeable","status":"True","lastTransitionTime":"2026-05-04T03:02:01Z","reason":"Idle","message":"The operator can be updated at any time."}]}}`
	if got := string(patch); got != want {
		t.Errorf("got the patch %s, want %s", got, want)
	}
}

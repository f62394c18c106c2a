package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

const (
	// wordsGroup is the API group of Words.
	wordsGroup = "words.hello.example.com"
	// wordsPath is the path of the only version of the group.
	wordsPath = "/apis/" + wordsGroup + "/v1"
	// wordsCertificateDir is where OLM mounts the certificate of an aggregated API.
	wordsCertificateDir = "/apiserver.local.config/certificates"
)

// wordServer serves the aggregated API of Words: the word that greetings start with. Words are
// public, so requests are not authenticated.
type wordServer struct {
	word string
	port int
	// wrap changes the handler.
	wrap func(http.Handler) http.Handler
}

// wordObject is the only object of the API.
type wordObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Word string `json:"word"`
}

// Start serves until the context ends.
func (s *wordServer) Start(ctx context.Context) error {
	watcher, err := certwatcher.New(filepath.Join(wordsCertificateDir, "apiserver.crt"), filepath.Join(wordsCertificateDir, "apiserver.key"))
	if err != nil {
		return fmt.Errorf("reading the certificate of the API: %w", err)
	}
	go func() { _ = watcher.Start(ctx) }() // The certificate that was read is served on.

	server := &http.Server{
		Addr: fmt.Sprintf(":%d", s.port), Handler: s.wrap(s.newHandler()), ReadHeaderTimeout: 5 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate},
	}
	return serveUntilDone(ctx, server, func() error { return server.ListenAndServeTLS("", "") })
}

func (s *wordServer) newHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wordsPath, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: wordsGroup + "/v1",
			APIResources: []metav1.APIResource{{Name: "words", SingularName: "word", Kind: "Word", Verbs: metav1.Verbs{"get"}}},
		})
	})
	mux.HandleFunc("GET "+wordsPath+"/words/greeting", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, wordObject{
			TypeMeta:   metav1.TypeMeta{APIVersion: wordsGroup + "/v1", Kind: "Word"},
			ObjectMeta: metav1.ObjectMeta{Name: "greeting"}, Word: s.word,
		})
	})
	return mux
}

func writeJSON(w http.ResponseWriter, content any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(content) // The client has gone.
}

// Package site provides the external services of a cluster that is updated by releases: a key
// that signs releases, a web server with their signatures, and the graph-data of an update
// service. The web server also answers the queries of conditional updates in place of Prometheus.
//
// It is only for tests and demos, as it generates a new key each time.
package site

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// Site serves until Close is called.
type Site struct {
	// URL is the URL of the web server.
	URL string
	// Key and Keyring are the files of the private and the public key that sign releases.
	Key, Keyring string
	// Signatures is the folder of signatures, and Store its URL.
	Signatures, Store string
	// Data is the graph-data folder.
	Data string

	server    *http.Server
	publicKey string
}

// Open creates a site in a folder and serves it on an address of this machine. answers are the
// values of queries; other queries are rejected.
func Open(dir, host string, answers map[string]string) (*Site, error) {
	s := &Site{
		Key: filepath.Join(dir, "releases.key"), Keyring: filepath.Join(dir, "releases.asc"),
		Data: filepath.Join(dir, "graph-data"), Signatures: filepath.Join(dir, "signatures"),
	}
	if err := errors.Join(os.MkdirAll(s.Signatures, 0o755), s.makeKey(), s.WriteGraphData("version", "1.1.0\n")); err != nil {
		return nil, err
	}

	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}

	s.URL = "http://" + listener.Addr().String()
	s.Store = s.URL + "/signatures"
	mux := http.NewServeMux()
	mux.Handle("/signatures/", http.StripPrefix("/signatures/", http.FileServer(http.Dir(s.Signatures))))
	mux.HandleFunc("/api/v1/query", func(w http.ResponseWriter, r *http.Request) { answerQuery(w, answers, r.FormValue("query")) })
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(listener) }() // It ends by being closed.

	return s, nil
}

// Close stops the web server.
func (s *Site) Close() error { return s.server.Close() }

// answerQuery answers a query as Prometheus does.
func answerQuery(w http.ResponseWriter, answers map[string]string, query string) {
	value, ok := answers[query]
	if !ok {
		http.Error(w, `{"status":"error","errorType":"bad_data","error":"nobody knows this query"}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%d,%q]}]}}`, time.Now().Unix(), value)
}

// makeKey generates an OpenPGP key and writes both of its parts.
func (s *Site) makeKey() error {
	entity, err := openpgp.NewEntity("releases", "", "releases@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}

	var private, public bytes.Buffer
	for _, part := range []struct {
		to    *bytes.Buffer
		block string
		write func(w *bytes.Buffer) error
	}{
		{&private, openpgp.PrivateKeyType, func(w *bytes.Buffer) error { return entity.SerializePrivate(w, nil) }},
		{&public, openpgp.PublicKeyType, func(w *bytes.Buffer) error { return entity.Serialize(w) }},
	} {
		var raw bytes.Buffer
		if err := part.write(&raw); err != nil {
			return fmt.Errorf("writing a key: %w", err)
		}

		armored, err := armor.Encode(part.to, part.block, nil)
		if err != nil {
			return fmt.Errorf("writing a key: %w", err)
		}

		_, err = armored.Write(raw.Bytes())
		if err := errors.Join(err, armored.Close()); err != nil {
			return fmt.Errorf("writing a key: %w", err)
		}
	}

	s.publicKey = public.String()
	return errors.Join(os.WriteFile(s.Key, private.Bytes(), 0o600), os.WriteFile(s.Keyring, public.Bytes(), 0o644))
}

// WriteGraphData writes a file of the graph-data folder.
func (s *Site) WriteGraphData(name, text string) error {
	file := filepath.Join(s.Data, filepath.FromSlash(name))
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644))
}

// WriteChannel sets the versions of a channel of the update service.
func (s *Site) WriteChannel(name string, versions ...string) error {
	return s.WriteGraphData("channels/"+name+".yaml", "name: "+name+"\nversions:\n- "+strings.Join(versions, "\n- ")+"\n")
}

// TrustManifest returns the manifest with which a release defines the signers of its successors.
func (s *Site) TrustManifest() string {
	return `apiVersion: v1
kind: ConfigMap
metadata:
  name: release-verification
  namespace: openshift-config-managed
  annotations:
    include.release.openshift.io/self-managed-high-availability: "true"
    release.openshift.io/verification-config-map: ""
data:
  store-site: ` + s.Store + `
  verifier-public-key-site: |
    ` + strings.ReplaceAll(strings.TrimSpace(s.publicKey), "\n", "\n    ") + "\n"
}

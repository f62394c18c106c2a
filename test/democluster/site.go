package main

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

// Queries of the risks. The stand-in for Prometheus knows these two.
const (
	queryAbsent  = "max(demo_slow_disks) > bool 0"
	queryPresent = "max(demo_old_firmware) > bool 0"
)

// site is what stands around the cluster: a web server with the signatures of releases, which
// also answers the queries of risks in place of a Prometheus.
type site struct {
	url                string
	server             *http.Server
	key, keyring, data string
	signatures         string
	public             string
}

// openSite makes a key and serves a folder.
func openSite(dir string) (*site, error) {
	s := &site{
		key: filepath.Join(dir, "releases.key"), keyring: filepath.Join(dir, "releases.asc"),
		data: filepath.Join(dir, "graph-data"), signatures: filepath.Join(dir, "signatures"),
	}
	if err := errors.Join(os.MkdirAll(s.signatures, 0o755), s.makeKey(), s.writeData()); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + listener.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("/signatures/", http.StripPrefix("/signatures/", http.FileServer(http.Dir(s.signatures))))
	mux.HandleFunc("/api/v1/query", answerQuery)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(listener) }() // It ends by being closed.
	return s, nil
}

func (s *site) close() error { return s.server.Close() }

// answerQuery answers as Prometheus does.
func answerQuery(w http.ResponseWriter, r *http.Request) {
	values := map[string]string{queryAbsent: "0", queryPresent: "1"}
	value, ok := values[r.FormValue("query")]
	if !ok {
		http.Error(w, `{"status":"error","errorType":"bad_data","error":"the demo does not know this query"}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%d,%q]}]}}`, time.Now().Unix(), value)
}

// makeKey writes a new OpenPGP key, the private and the public part.
func (s *site) makeKey() error {
	entity, err := openpgp.NewEntity("releases of the demo", "", "releases@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
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
	s.public = public.String()
	return errors.Join(os.WriteFile(s.key, private.Bytes(), 0o600), os.WriteFile(s.keyring, public.Bytes(), 0o644))
}

// writeData writes the graph-data folder: a channel, and a risk for each update.
func (s *site) writeData() error {
	const risk = `to: %s
from: 1[.]0[.].*
url: https://example.com/risks/%s
name: %s
message: %s
matchingRules:
- type: PromQL
  promql:
    promql: %s
`
	files := map[string]string{
		"version":                         "1.1.0\n",
		"channels/" + channel + ".yaml":   "name: " + channel + "\nversions:\n- " + strings.Join([]string{first, second, third}, "\n- ") + "\n",
		"blocked-edges/slow-disks.yaml":   fmt.Sprintf(risk, second, "slow-disks", "SlowDisks", "Nodes with slow disks take an hour.", queryAbsent),
		"blocked-edges/old-firmware.yaml": fmt.Sprintf(risk, third, "old-firmware", "OldFirmware", "Nodes with old firmware do not come back.", queryPresent),
	}
	for name, text := range files {
		file := filepath.Join(s.data, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// trust is the manifest by which a release says who signs its successors.
func (s *site) trust() string {
	return `apiVersion: v1
kind: ConfigMap
metadata:
  name: release-verification
  namespace: openshift-config-managed
  annotations:
    include.release.openshift.io/self-managed-high-availability: "true"
    release.openshift.io/verification-config-map: ""
data:
  store-demo: ` + s.url + `/signatures
  verifier-public-key-demo: |
    ` + strings.ReplaceAll(strings.TrimSpace(s.public), "\n", "\n    ") + "\n"
}

// setting is the MachineConfig by which the demo's releases set the content of a file of each
// node.
const (
	settingFile = "etc/platform-release"
	setting     = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 50-platform-release
  labels:
    machineconfiguration.openshift.io/role: master
  annotations:
    include.release.openshift.io/self-managed-high-availability: "true"
spec:
  config:
    ignition:
      version: 3.2.0
    storage:
      files:
      - path: /` + settingFile + `
        mode: 420
        overwrite: true
        contents:
          source: data:,0.0.1-snapshot
`
)

package serve

import (
	"log"
	"strings"

	"github.com/go-logr/logr"
)

// newErrorLog returns a logger for net/http that writes to the log of the program at verbosity 1. Most of
// its messages are about TLS handshakes that clients aborted.
func newErrorLog(l logr.Logger) *log.Logger { return log.New(logWriter{l}, "", 0) }

type logWriter struct{ log logr.Logger }

func (w logWriter) Write(text []byte) (int, error) {
	w.log.V(1).Info("Connection problem", "problem", strings.TrimSpace(string(text)))
	return len(text), nil
}

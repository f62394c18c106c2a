package serve

import (
	"log"
	"strings"

	"github.com/go-logr/logr"
)

// newErrorLog passes what net/http says of connections to the log of the program. It
// tells of handshakes that clients broke off, which is for those who look for it.
func newErrorLog(l logr.Logger) *log.Logger { return log.New(logWriter{l}, "", 0) }

type logWriter struct{ log logr.Logger }

func (w logWriter) Write(text []byte) (int, error) {
	w.log.V(1).Info("Connection problem", "problem", strings.TrimSpace(string(text)))
	return len(text), nil
}

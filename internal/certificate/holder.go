package certificate

import (
	"crypto/tls"
	"errors"
	"sync/atomic"
)

// Holder keeps the certificate that a running server serves with, and lets it be replaced
// without a restart. The zero value has none yet. It is safe for concurrent use and must
// not be copied.
type Holder struct {
	current atomic.Pointer[tls.Certificate]
}

// ErrNone is the error of handshakes before the first certificate is set.
var ErrNone = errors.New("the server has no certificate yet")

// Set makes a pair the one that new connections get. Connections that are open keep theirs.
func (h *Holder) Set(pair *Pair) { h.current.Store(pair.TLS()) }

// Ready reports whether there is a certificate.
func (h *Holder) Ready() bool { return h.current.Load() != nil }

// GetCertificate has the form of the tls.Config field of the same name.
func (h *Holder) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := h.current.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, ErrNone
}

package certificate

import (
	"crypto/tls"
	"errors"
	"sync/atomic"
)

// Holder holds the serving certificate of a running server, which can be replaced without a
// restart. The zero value has no certificate. It is safe for concurrent use and must not be
// copied.
type Holder struct {
	current atomic.Pointer[tls.Certificate]
}

// ErrNone is the error of handshakes before the first certificate is set.
var ErrNone = errors.New("the server has no certificate yet")

// Set sets the certificate for new connections. Open connections are not affected.
func (h *Holder) Set(pair *Pair) { h.current.Store(pair.TLS()) }

// Ready reports whether there is a certificate.
func (h *Holder) Ready() bool { return h.current.Load() != nil }

// GetCertificate implements the field GetCertificate of tls.Config.
func (h *Holder) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := h.current.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, ErrNone
}

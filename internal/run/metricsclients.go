package run

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsReader is the name of the one client that reads metrics by certificate.
const metricsReader = "system:serviceaccount:openshift-monitoring:prometheus-k8s"

// byCertificate lets those read metrics who show a client certificate of an authority of
// the file, in the name of the platform's Prometheus. The file is read at each request, so
// that it may change.
func byCertificate(o *metricsserver.Options, file string) {
	o.TLSOpts = append(o.TLSOpts, func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert })
	o.FilterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		return func(log logr.Logger, next http.Handler) (http.Handler, error) {
			return http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
				if status := clientStatus(r.TLS, file, log); status != http.StatusOK {
					http.Error(answer, http.StatusText(status), status)
					return
				}
				next.ServeHTTP(answer, r)
			}), nil
		}, nil
	}
}

// clientStatus reports whether a client may read metrics: 401 for one without a certificate
// that is trusted, 403 for one with another name.
func clientStatus(connection *tls.ConnectionState, file string, log logr.Logger) int {
	if connection == nil || len(connection.PeerCertificates) == 0 {
		return http.StatusUnauthorized
	}

	data, err := os.ReadFile(file)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(data) {
		log.Info("The authorities of those who read metrics cannot be read", "file", file)
		return http.StatusUnauthorized
	}

	between := x509.NewCertPool()
	for _, certificate := range connection.PeerCertificates[1:] {
		between.AddCert(certificate)
	}

	shown := connection.PeerCertificates[0]
	if _, err := shown.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return http.StatusUnauthorized
	}
	if shown.Subject.CommonName != metricsReader {
		return http.StatusForbidden
	}

	return http.StatusOK
}

package run

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsReaderName is the common name of the client certificate that is authorized to read metrics.
const metricsReaderName = "system:serviceaccount:openshift-monitoring:prometheus-k8s"

// authorizeByCertificate restricts /metrics to clients with a certificate for metricsReaderName that is issued
// by an authority in the file. The file is read for each request, because it can change.
func authorizeByCertificate(o *metricsserver.Options, file string) {
	o.TLSOpts = append(o.TLSOpts, func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert })
	o.FilterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		return func(log logr.Logger, next http.Handler) (http.Handler, error) {
			return http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
				if status := authorizeMetricsClient(r.TLS, file, log); status != http.StatusOK {
					http.Error(answer, http.StatusText(status), status)
					return
				}
				next.ServeHTTP(answer, r)
			}), nil
		}, nil
	}
}

// useMetricsCertificate sets the serving certificate of /metrics. The files are read again when they change.
func useMetricsCertificate(o *metricsserver.Options, certFile, keyFile string) {
	o.CertDir, o.CertName = filepath.Split(certFile)
	o.KeyName = keyFile
	if key, err := filepath.Rel(o.CertDir, keyFile); err == nil {
		o.KeyName = key
	}
}

// admitCertificates admits clients to /metrics whose certificate is issued by an authority in the file, without
// further authorization. All other clients are authorized as before.
func admitCertificates(o *metricsserver.Options, file string) {
	o.TLSOpts = append(o.TLSOpts, func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert })
	authorize := o.FilterProvider
	o.FilterProvider = func(config *rest.Config, c *http.Client) (metricsserver.Filter, error) {
		filter, err := authorize(config, c)
		if err != nil {
			return nil, err
		}
		return func(log logr.Logger, next http.Handler) (http.Handler, error) {
			authorized, err := filter(log, next)
			if err != nil {
				return nil, err
			}
			return http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
				if verifyClientCertificate(r.TLS, file, log) != nil {
					next.ServeHTTP(answer, r)
					return
				}
				authorized.ServeHTTP(answer, r)
			}), nil
		}, nil
	}
}

// authorizeMetricsClient returns the status code for a client of /metrics: 200, 401 without a trusted
// certificate, or 403 for another common name.
func authorizeMetricsClient(connection *tls.ConnectionState, file string, log logr.Logger) int {
	switch trusted := verifyClientCertificate(connection, file, log); {
	case trusted == nil:
		return http.StatusUnauthorized
	case trusted.Subject.CommonName != metricsReaderName:
		return http.StatusForbidden
	}
	return http.StatusOK
}

// verifyClientCertificate returns the certificate of a client if an authority in the file has issued it, and nil
// otherwise.
func verifyClientCertificate(connection *tls.ConnectionState, file string, log logr.Logger) *x509.Certificate {
	if connection == nil || len(connection.PeerCertificates) == 0 {
		return nil
	}

	data, err := os.ReadFile(file)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(data) {
		log.Info("The certificate authorities for metrics clients cannot be read", "file", file)
		return nil
	}

	intermediates := x509.NewCertPool()
	for _, certificate := range connection.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}

	clientCertificate := connection.PeerCertificates[0]
	if _, err := clientCertificate.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return nil
	}
	return clientCertificate
}

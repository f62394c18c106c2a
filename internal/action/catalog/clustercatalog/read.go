// Package clustercatalog reads the content of a ClusterCatalog from a user's machine. If
// catalogd is a Service of the cluster, it reads through the API server's proxy. If
// catalogd is a process that is reachable from this machine, it connects directly.
//
// It links no typed client, so that the program opm, which uses it, starts in milliseconds.
// Components read catalogs with internal/catalogclient.
package clustercatalog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Prefix is the prefix of references to catalogs on the cluster.
const Prefix = "clustercatalog/"

// Reader reads catalogs of a cluster.
type Reader struct {
	// Config is the configuration of the cluster.
	Config *rest.Config
	// SystemNamespace is the namespace where catalogd publishes the authority of its
	// certificate. It is needed only if catalogd is not a Service. The default is
	// olmv1-system.
	SystemNamespace string
}

// maxObjectBytes limits the size of an object that is read from the API server.
const maxObjectBytes = 4 << 20

// Metas yields the blobs of a ClusterCatalog. It stops at the first error, which is a
// *report.Error, or an *fbc.Error about the content.
//
// If catalogd is a Service, the user needs the permission to get services/proxy in its
// namespace.
func (r *Reader) Metas(ctx context.Context, name string) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		body, err := r.openCatalog(ctx, name)
		if err != nil {
			yield(fbc.Meta{}, err)
			return
		}
		defer func() { _ = body.Close() }() // it was only read
		for meta, err := range fbc.Read(body, Prefix+name, fbc.Limits{}) {
			if !yield(meta, err) || err != nil {
				return
			}
		}
	}
}

// ServedCatalog is a served ClusterCatalog.
type ServedCatalog struct {
	Name string
	// Priority selects between catalogs with the same package. The highest wins.
	Priority int32
}

// List returns the served catalogs of the cluster. The error is a *report.Error.
func (r *Reader) List(ctx context.Context) ([]ServedCatalog, error) {
	api, server, err := r.newAPIClient()
	if err != nil {
		return nil, err
	}

	var list struct {
		Items []clusterCatalog `json:"items"`
	}
	if err := getObject(ctx, api, server.JoinPath(clusterCatalogsPath), &list); err != nil {
		return nil, &report.Error{Object: "clustercatalogs", Err: err, Advice: "check that Mainstay is installed and that you are allowed to list them"}
	}

	var served []ServedCatalog
	for _, catalog := range list.Items {
		if _, err := catalog.serviceURL(); err == nil {
			served = append(served, ServedCatalog{Name: catalog.Metadata.Name, Priority: catalog.Spec.Priority})
		}
	}

	return served, nil
}

// clusterCatalogsPath is the API path of ClusterCatalogs.
const clusterCatalogsPath = "apis/olm.operatorframework.io/v1/clustercatalogs"

// newAPIClient returns an HTTP client for the API server, and its URL.
func (r *Reader) newAPIClient() (*http.Client, *url.URL, error) {
	client, err := rest.HTTPClientFor(r.Config)
	if err != nil {
		return nil, nil, &report.Error{Object: "cluster", Err: err, Advice: "check the kubeconfig"}
	}

	server, _, err := rest.DefaultServerUrlFor(r.Config)
	if err != nil {
		return nil, nil, &report.Error{Object: "cluster", Err: err, Advice: "check the kubeconfig"}
	}

	return client, server, nil
}

// openCatalog requests the whole content of a catalog.
func (r *Reader) openCatalog(ctx context.Context, name string) (io.ReadCloser, error) {
	object := fmt.Sprintf("clustercatalog %q", name)
	api, server, err := r.newAPIClient()
	if err != nil {
		return nil, err
	}

	var catalog clusterCatalog
	if err := getObject(ctx, api, server.JoinPath(clusterCatalogsPath, name), &catalog); err != nil {
		return nil, &report.Error{Object: object, Err: err, Advice: "'kubectl get clustercatalogs' shows those that the cluster has"}
	}

	base, err := catalog.serviceURL()
	if err != nil {
		return nil, &report.Error{Object: object, Err: err, Advice: "'kubectl describe clustercatalog " + name + "' shows why"}
	}

	if namespace, service, ok := parseServiceHost(base); ok {
		path := server.JoinPath("api/v1/namespaces", namespace, "services", "https:"+service, "proxy", base.Path, "api/v1/all")
		body, err := fetchBody(ctx, api, path)
		if err != nil {
			return nil, &report.Error{Object: object, Err: err, Advice: "reading it requires the permission to get services/proxy in the namespace " + namespace}
		}
		return body, nil
	}

	direct, err := r.newCatalogdClient(ctx, api, server)
	if err != nil {
		return nil, &report.Error{Object: object, Err: err, Advice: "name the namespace of catalogd, whose certificate has to be trusted"}
	}

	body, err := fetchBody(ctx, direct, base.JoinPath("api/v1/all"))
	if err != nil {
		return nil, &report.Error{Object: object, Err: err, Advice: "catalogd has to be reachable from this machine"}
	}

	return body, nil
}

// clusterCatalog contains the fields of a ClusterCatalog that are read.
type clusterCatalog struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Priority int32 `json:"priority"`
	} `json:"spec"`
	Status struct {
		URLs struct {
			Base string `json:"base"`
		} `json:"urls"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// serviceURL returns the URL that the catalog is served at.
func (c clusterCatalog) serviceURL() (*url.URL, error) {
	for _, condition := range c.Status.Conditions {
		if condition.Type == "Serving" && condition.Status != metav1.ConditionTrue {
			return nil, fmt.Errorf("it is not served: %s: %s", condition.Reason, condition.Message)
		}
	}

	if c.Status.URLs.Base == "" {
		return nil, errors.New("it is not served yet")
	}

	base, err := url.Parse(c.Status.URLs.Base)
	if err != nil || base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("its address %q is invalid", c.Status.URLs.Base)
	}

	return base, nil
}

// parseServiceHost splits the host of a Service, name.namespace.svc. The service contains
// the port, which the API server's proxy requires.
func parseServiceHost(base *url.URL) (namespace, service string, ok bool) {
	parts := strings.Split(base.Hostname(), ".")
	if len(parts) < 3 || parts[2] != "svc" {
		return "", "", false
	}

	port := base.Port()
	if port == "" {
		port = "443"
	}

	return parts[1], parts[0] + ":" + port, true
}

// newCatalogdClient returns an HTTP client that trusts the authority that catalogd
// publishes.
func (r *Reader) newCatalogdClient(ctx context.Context, api *http.Client, server *url.URL) (*http.Client, error) {
	namespace := r.SystemNamespace
	if namespace == "" {
		namespace = "olmv1-system"
	}

	var published struct {
		Data map[string]string `json:"data"`
	}
	if err := getObject(ctx, api, server.JoinPath("api/v1/namespaces", namespace, "configmaps/catalogd-service-ca"), &published); err != nil {
		return nil, fmt.Errorf("reading the authority of catalogd's certificate, ConfigMap %s/catalogd-service-ca: %w", namespace, err)
	}

	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(published.Data["ca.crt"])) {
		return nil, fmt.Errorf("ConfigMap %s/catalogd-service-ca holds no certificate in ca.crt", namespace)
	}

	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: transport}, nil
}

// getObject reads an object from the API server.
func getObject(ctx context.Context, client *http.Client, at *url.URL, into any) error {
	body, err := fetchBody(ctx, client, at)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // it was only read
	if err := json.NewDecoder(io.LimitReader(body, maxObjectBytes)).Decode(into); err != nil {
		return fmt.Errorf("reading the answer of the API server: %w", err)
	}

	return nil
}

// fetchBody returns the body of a successful response.
func fetchBody(ctx context.Context, client *http.Client, at *url.URL) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}

	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	var status metav1.Status
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxObjectBytes)).Decode(&status); err == nil && status.Message != "" {
		return nil, errors.New(status.Message)
	}

	return nil, fmt.Errorf("the server answered %s", resp.Status)
}

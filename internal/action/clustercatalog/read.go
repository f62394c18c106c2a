// Package clustercatalog reads the content of a ClusterCatalog from a person's machine:
// through the API server where catalogd is a Service of the cluster, and directly where
// it is a process that this machine reaches.
//
// It links no typed client, so that the program opm, which has to start in milliseconds,
// can have it. Components read catalogs by internal/catalogclient.
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

// Prefix is what a reference of a catalog on the cluster begins with.
const Prefix = "clustercatalog/"

// Reader reads catalogs of one cluster.
type Reader struct {
	// Config says how the API server is reached.
	Config *rest.Config
	// SystemNamespace is where catalogd publishes the authority of its certificate. Only
	// reading a catalogd that is no Service needs it. Default olmv1-system.
	SystemNamespace string
}

// maxObject is how large an object of the API server may be that is read here, in bytes.
const maxObject = 4 << 20

// Metas yields the blobs of a ClusterCatalog. The first error ends it; it is a
// *report.Error, or an *fbc.Error about the content.
//
// Where catalogd is a Service, the person needs the right to get services/proxy in its
// namespace.
func (r *Reader) Metas(ctx context.Context, name string) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		body, err := r.open(ctx, name)
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

// Served is a ClusterCatalog that can be read.
type Served struct {
	Name string
	// Priority decides between catalogs that have the same package: the higher wins.
	Priority int32
}

// List returns the catalogs of the cluster that are served. The error is a *report.Error.
func (r *Reader) List(ctx context.Context) ([]Served, error) {
	api, server, err := r.api()
	if err != nil {
		return nil, err
	}

	var list struct {
		Items []clusterCatalog `json:"items"`
	}
	if err := get(ctx, api, server.JoinPath(resource), &list); err != nil {
		return nil, &report.Error{Object: "clustercatalogs", Err: err, Advice: "check that Mainstay is installed, and that you may list them"}
	}

	var served []Served
	for _, catalog := range list.Items {
		if _, err := catalog.base(); err == nil {
			served = append(served, Served{Name: catalog.Metadata.Name, Priority: catalog.Spec.Priority})
		}
	}

	return served, nil
}

// resource is the path of the kind.
const resource = "apis/olm.operatorframework.io/v1/clustercatalogs"

// api returns a client of the API server, and its address.
func (r *Reader) api() (*http.Client, *url.URL, error) {
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

// open asks for all of a catalog.
func (r *Reader) open(ctx context.Context, name string) (io.ReadCloser, error) {
	object := fmt.Sprintf("clustercatalog %q", name)
	api, server, err := r.api()
	if err != nil {
		return nil, err
	}

	var catalog clusterCatalog
	if err := get(ctx, api, server.JoinPath(resource, name), &catalog); err != nil {
		return nil, &report.Error{Object: object, Err: err, Advice: "'kubectl get clustercatalogs' shows those that the cluster has"}
	}

	base, err := catalog.base()
	if err != nil {
		return nil, &report.Error{Object: object, Err: err, Advice: "'kubectl describe clustercatalog " + name + "' shows why"}
	}

	if namespace, service, ok := serviceOf(base); ok {
		path := server.JoinPath("api/v1/namespaces", namespace, "services", "https:"+service, "proxy", base.Path, "api/v1/all")
		body, err := fetch(ctx, api, path)
		if err != nil {
			return nil, &report.Error{Object: object, Err: err, Advice: "reading it needs the right to get services/proxy in the namespace " + namespace}
		}
		return body, nil
	}

	direct, err := r.direct(ctx, api, server)
	if err != nil {
		return nil, &report.Error{Object: object, Err: err, Advice: "name the namespace of catalogd, whose certificate has to be trusted"}
	}

	body, err := fetch(ctx, direct, base.JoinPath("api/v1/all"))
	if err != nil {
		return nil, &report.Error{Object: object, Err: err, Advice: "catalogd has to be reachable from this machine"}
	}

	return body, nil
}

// clusterCatalog is what is read of the kind.
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

// base is the address that the catalog is served at.
func (c clusterCatalog) base() (*url.URL, error) {
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
		return nil, fmt.Errorf("its address %q is none that can be read", c.Status.URLs.Base)
	}

	return base, nil
}

// serviceOf takes the host of a Service apart: name.namespace.svc, with the port that
// the proxy of the API server asks for.
func serviceOf(base *url.URL) (namespace, service string, ok bool) {
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

// direct makes a client that trusts what catalogd publishes.
func (r *Reader) direct(ctx context.Context, api *http.Client, server *url.URL) (*http.Client, error) {
	namespace := r.SystemNamespace
	if namespace == "" {
		namespace = "olmv1-system"
	}

	var published struct {
		Data map[string]string `json:"data"`
	}
	if err := get(ctx, api, server.JoinPath("api/v1/namespaces", namespace, "configmaps/catalogd-service-ca"), &published); err != nil {
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

// get reads an object of the API server.
func get(ctx context.Context, client *http.Client, at *url.URL, into any) error {
	body, err := fetch(ctx, client, at)
	if err != nil {
		return err
	}

	defer func() { _ = body.Close() }() // it was only read
	if err := json.NewDecoder(io.LimitReader(body, maxObject)).Decode(into); err != nil {
		return fmt.Errorf("reading the answer of the API server: %w", err)
	}

	return nil
}

// fetch returns the body of a good answer.
func fetch(ctx context.Context, client *http.Client, at *url.URL) (io.ReadCloser, error) {
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
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxObject)).Decode(&status); err == nil && status.Message != "" {
		return nil, errors.New(status.Message)
	}

	return nil, fmt.Errorf("the server answered %s", resp.Status)
}

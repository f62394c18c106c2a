package run

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// registrationObjects returns the objects with which `mainstay run all` registers package-server, without content.
func registrationObjects() (*corev1.Service, *discoveryv1.EndpointSlice, *apiregistrationv1.APIService) {
	meta := metav1.ObjectMeta{Namespace: "olm", Name: "mainstay-run-all"}
	return &corev1.Service{ObjectMeta: meta}, &discoveryv1.EndpointSlice{ObjectMeta: meta},
		&apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.packages.operators.coreos.com"}}
}

// requirePackageServed waits until the registered package-server serves a package of the namespace default. It connects as
// the API server does: to the address in the EndpointSlice, with the authority of the APIService.
func (p *process) requirePackageServed(t *testing.T, c client.Client, token, name string) {
	t.Helper()
	service, slice, api := registrationObjects()
	p.eventually(t, "registering package-server", func(ctx context.Context) error {
		return errors.Join(c.Get(ctx, client.ObjectKeyFromObject(service), service), c.Get(ctx, client.ObjectKeyFromObject(slice), slice), c.Get(ctx, client.ObjectKeyFromObject(api), api))
	})

	if len(service.Spec.Selector) > 0 || slice.Labels[discoveryv1.LabelServiceName] != service.Name || api.Spec.Service.Name != service.Name {
		t.Fatalf("got Service %+v, EndpointSlice %+v and APIService %+v, which do not belong together", service, slice, api)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(api.Spec.CABundle)
	connection := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: trusted, ServerName: service.Name + ".olm.svc", MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}}
	address := fmt.Sprintf("%s:%d", slice.Endpoints[0].Addresses[0], *slice.Ports[0].Port)

	p.eventually(t, "reading a package", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/apis/packages.operators.coreos.com/v1/namespaces/default/packagemanifests/"+name, nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := connection.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()

		var manifest packagesv1.PackageManifest
		if err := json.NewDecoder(response.Body).Decode(&manifest); err != nil || response.StatusCode != http.StatusOK || manifest.Status.DefaultChannel != "b" {
			return fmt.Errorf("got the response %s, error %w, %+v", response.Status, err, manifest)
		}
		return nil
	})
}

// requireNotRegistered returns an error unless the registration of package-server is removed.
func requireNotRegistered(t *testing.T, c client.Client) {
	t.Helper()
	service, slice, api := registrationObjects()
	for _, object := range []client.Object{service, slice, api} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s still exists (error %v)", object, object.GetName(), err)
		}
	}
}

// newPackageReader permits the service account of newMetricsReader to read PackageManifests.
func newPackageReader(t *testing.T, c client.Client, account string) {
	t.Helper()
	role, binding := builder.ClusterRole(metav1.ObjectMeta{Name: account + "-packages"},
		builder.Rules("get packages.operators.coreos.com packagemanifests"), builder.ServiceAccountSubject("default", account))
	if err := errors.Join(c.Create(t.Context(), role), c.Create(t.Context(), binding)); err != nil {
		t.Fatal(err)
	}
}

// An APIService of another client is not changed.
func TestForeignPackageServer(t *testing.T) {
	c := env.Client(t, corev1.AddToScheme, discoveryv1.AddToScheme, apiregistrationv1.AddToScheme)
	service, slice, foreign := registrationObjects()
	foreign.Spec = apiregistrationv1.APIServiceSpec{
		Group: "packages.operators.coreos.com", Version: "v1", GroupPriorityMinimum: 2000, VersionPriority: 15, InsecureSkipTLSVerify: true,
		Service: &apiregistrationv1.ServiceReference{Namespace: "other", Name: "packageserver-service"},
	}
	if err := c.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), foreign); err != nil {
			t.Error(err)
		}
	})

	r := &packageRegistration{client: c, reader: c, authority: []byte("a"), log: logr.Discard()}
	if err := r.run(t.Context(), netip.MustParseAddrPort("192.0.2.1:5443")); err != nil {
		t.Fatal(err)
	}

	_, _, after := registrationObjects()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(after), after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(foreign.Spec, after.Spec); diff != "" {
		t.Errorf("the APIService of another package-server was changed (-was +is):\n%s", diff)
	}
	for _, object := range []client.Object{service, slice} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s exists (error %v)", object, object.GetName(), err)
		}
	}
}

// A process that stops while it registers package-server removes what it has registered.
func TestInterruptedRegistrationIsRemoved(t *testing.T) {
	c, err := client.NewWithWatch(env.Start(t), client.Options{Scheme: env.Scheme(t, corev1.AddToScheme, discoveryv1.AddToScheme, apiregistrationv1.AddToScheme)})
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "olm"}}
	if err := c.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}

	for _, kind := range []string{"Service", "EndpointSlice", "APIService"} {
		t.Run(kind, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			interrupted := interceptor.NewClient(c, interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
				if err := c.Apply(ctx, object, options...); err != nil {
					return err
				}
				if applied, ok := object.(interface{ GetKind() string }); ok && applied.GetKind() == kind {
					stop() // The API server applied it, but the response does not arrive.
				}
				return ctx.Err()
			}})

			r := &packageRegistration{client: interrupted, reader: c, authority: []byte("a"), log: logr.Discard()}
			if err := r.run(ctx, netip.MustParseAddrPort("192.0.2.1:5443")); !errors.Is(err, context.Canceled) {
				t.Errorf("got error %v of the registration", err)
			}
			requireNotRegistered(t, c)
		})
	}
}

func TestPackageServerIP(t *testing.T) {
	const mistake = `--package-server-address: "%s" must be an IP address of this machine that the API server reaches, not a loopback or link-local one; 0 disables package-server`
	for given, want := range map[string]struct{ ip, err string }{
		"0":             {ip: "invalid IP"},
		"192.0.2.7":     {ip: "192.0.2.7"},
		"2001:db8::7":   {ip: "2001:db8::7"},
		"127.0.0.1":     {ip: "invalid IP", err: mistake},
		"0.0.0.0":       {ip: "invalid IP", err: mistake},
		"169.254.1.1":   {ip: "invalid IP", err: mistake},
		"host.example":  {ip: "invalid IP", err: mistake},
		"192.0.2.7:443": {ip: "invalid IP", err: mistake},
	} {
		ip, err := (&allOptions{packageServerAddress: given}).packageServerIP(&rest.Config{})
		text := ""
		if err != nil {
			text = err.Error()
		}
		if ip.String() != want.ip || text != strings.ReplaceAll(want.err, "%s", given) {
			t.Errorf("--package-server-address %q: got address %s, error %v", given, ip, err)
		}
	}
}

package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
)

const (
	// classicNamespace is the namespace of OLM Classic in this process.
	classicNamespace = "olm"
	// packageAPIService is the name of the APIService of PackageManifests.
	packageAPIService = "v1.packages.operators.coreos.com"
	// managedByLabel names who created an object.
	managedByLabel = "app.kubernetes.io/managed-by"

	// registrationName is the name of the Service and the EndpointSlice that lead to package-server in this process, and the
	// manager of the objects that register it.
	registrationName = "mainstay-run-all"
	// registrationPort is the port of the Service.
	registrationPort = 443
	// registrationRemovalTimeout limits the removal of these objects when the process stops.
	registrationRemovalTimeout = 5 * time.Second
)

// setupPackages adds package-server to a manager, and its registration with the API server.
func (a *allOptions) setupPackages(ctx context.Context, o *options, mgr ctrl.Manager) error {
	ip, err := a.packageServerIP(mgr.GetConfig())
	if err != nil {
		return err
	}
	if !ip.IsValid() {
		return nil
	}

	packages := &packageServerOptions{certificate: &selfIssuedCertificate{hosts: []string{registrationName + "." + classicNamespace + ".svc"}}}
	authority, err := packages.certificate.authorityPEM()
	if err != nil {
		return err
	}

	listening := make(chan netip.AddrPort, 1)
	packages.served.OnListening = func(address net.Addr) {
		if at, err := netip.ParseAddrPort(address.String()); err == nil { // It is the address of a TCP listener.
			listening <- at
		}
	}

	s := packages.newServer()
	addFlags := s.addFlags
	s.addFlags = func(o *options, cmd *cobra.Command) {
		addFlags(o, cmd)
		setFlagDefault(cmd, "global-namespace", classicNamespace)
		setFlagDefault(cmd, "bind-address", ip.String())
		setFlagDefault(cmd, "secure-port", "0") // The registration names the port.
	}
	if err := addNestedManager(ctx, s, o, mgr); err != nil {
		return err
	}

	r := &packageRegistration{client: mgr.GetClient(), reader: mgr.GetAPIReader(), authority: authority, log: mgr.GetLogger().WithName(registrationName)}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		select {
		case at := <-listening:
			return r.run(ctx, netip.AddrPortFrom(ip, at.Port()))
		case <-ctx.Done():
			return nil
		}
	}))
}

// packageServerIP returns the address at which package-server listens and the API server reaches it. It is invalid if
// package-server is disabled, or if this machine has no address that the API server accepts.
func (a *allOptions) packageServerIP(config *rest.Config) (netip.Addr, error) {
	if a.packageServerAddress != "" {
		return parsePackageServerAddress(a.packageServerAddress)
	}

	ip, err := findReachableIP(config.Host)
	if err != nil {
		ctrl.Log.Info("package-server is not running, because this machine has no address at which the API server can reach it: "+
			"name one with --package-server-address", "reason", err.Error())
	}
	return ip, nil
}

// parsePackageServerAddress returns the address that --package-server-address names. It is invalid if the value is empty,
// which selects an address, or 0, which disables package-server.
func parsePackageServerAddress(value string) (netip.Addr, error) {
	if value == "" || value == "0" {
		return netip.Addr{}, nil
	}

	ip, err := netip.ParseAddr(value)
	if err != nil || ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast() {
		return netip.Addr{}, fmt.Errorf("--package-server-address: %q must be an IP address of this machine that the API server reaches, not a loopback or link-local one; 0 disables package-server", value)
	}
	return ip, nil
}

// findReachableIP returns the address of this machine from which it reaches the API server, or, if the API server runs on
// this machine, the first address that is not local to it.
func findReachableIP(server string) (netip.Addr, error) {
	at, err := url.Parse(server)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("the address of the API server: %w", err)
	}

	port := at.Port()
	if port == "" {
		port = "443"
	}
	// A connection over UDP sends nothing.
	if conn, err := net.Dial("udp", net.JoinHostPort(at.Hostname(), port)); err == nil { //nolint:noctx // it does not block but for a name
		local, parseErr := netip.ParseAddrPort(conn.LocalAddr().String())
		if err := errors.Join(parseErr, conn.Close()); err == nil && isReachable(local.Addr()) {
			return local.Addr().Unmap(), nil
		}
	}

	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reading the addresses of this machine: %w", err)
	}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && isReachable(prefix.Addr()) {
			return prefix.Addr(), nil
		}
	}

	return netip.Addr{}, errors.New("it has loopback and link-local addresses only")
}

// isReachable reports whether an EndpointSlice may contain an address.
func isReachable(ip netip.Addr) bool { return ip.IsGlobalUnicast() }

// packageRegistration registers package-server with the API server. The API server reaches it through a Service without a
// selector.
type packageRegistration struct {
	client    client.Client
	reader    client.Reader
	authority []byte
	log       logr.Logger
}

// run registers package-server at an address until the context ends, and removes the registration, even one that is not
// complete. An APIService that another server created is not changed.
func (r *packageRegistration) run(ctx context.Context, address netip.AddrPort) error {
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(apiregistrationv1.SchemeGroupVersion.WithKind("APIService"))
	err := r.reader.Get(ctx, client.ObjectKey{Name: packageAPIService}, existing)
	switch {
	case err == nil && existing.Labels[managedByLabel] != registrationName:
		r.log.Info("The package-server of this process is not used, because another one is registered", "apiservice", packageAPIService)
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("registering package-server: reading APIService %q: %w", packageAPIService, err)
	}

	objects, err := r.newObjects(address)
	if err != nil {
		return err
	}
	for i, object := range objects {
		err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(registrationName), client.ForceOwnership)
		if err != nil {
			// The API server may have applied the last object, even if the request failed.
			err = fmt.Errorf("registering package-server: applying %s %q: %w", object.GetKind(), object.GetName(), err)
			return errors.Join(err, r.removeRegistration(context.WithoutCancel(ctx), objects[:i+1]))
		}
	}

	r.log.Info("Serving PackageManifests", "address", address.String())
	<-ctx.Done()
	return r.removeRegistration(context.WithoutCancel(ctx), objects)
}

// removeRegistration removes the objects of the registration. An APIService without a server would disturb discovery and the
// deletion of namespaces.
func (r *packageRegistration) removeRegistration(ctx context.Context, objects []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, registrationRemovalTimeout)
	defer cancel()
	for i := len(objects) - 1; i >= 0; i-- {
		if err := r.client.Delete(ctx, objects[i]); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing %s %q of package-server: remove it with 'kubectl delete': %w", objects[i].GetKind(), objects[i].GetName(), err)
		}
	}
	return nil
}

// newObjects returns the objects that lead the API server to package-server at an address.
func (r *packageRegistration) newObjects(address netip.AddrPort) ([]*unstructured.Unstructured, error) {
	meta := metav1.ObjectMeta{Namespace: classicNamespace, Name: registrationName, Labels: map[string]string{managedByLabel: registrationName}}
	port := int32(address.Port())
	service := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: *meta.DeepCopy()}
	service.Spec.Ports = []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: registrationPort, TargetPort: intstr.FromInt32(port)}}

	family := discoveryv1.AddressTypeIPv4
	if address.Addr().Is6() {
		family = discoveryv1.AddressTypeIPv6
		service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	}
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: *meta.DeepCopy(), AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:     []discoveryv1.EndpointPort{{Name: ptr.To("https"), Protocol: ptr.To(corev1.ProtocolTCP), Port: &port}},
	}
	slice.Labels[discoveryv1.LabelServiceName] = registrationName
	slice.Labels[discoveryv1.LabelManagedBy] = registrationName

	api := &apiregistrationv1.APIService{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiregistrationv1.SchemeGroupVersion.String(), Kind: "APIService"},
		ObjectMeta: metav1.ObjectMeta{Name: packageAPIService, Labels: meta.Labels},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: packagesv1.GroupVersion.Group, Version: packagesv1.GroupVersion.Version, GroupPriorityMinimum: 2000, VersionPriority: 15,
			CABundle: r.authority,
			Service:  &apiregistrationv1.ServiceReference{Namespace: classicNamespace, Name: registrationName, Port: ptr.To[int32](registrationPort)},
		},
	}

	// The APIService comes last: its server must be reachable when it is created.
	var objects []*unstructured.Unstructured
	for _, object := range []runtime.Object{service, slice, api} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("registering package-server: %w", err)
		}
		unstructured.RemoveNestedField(fields, "status")
		unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
		objects = append(objects, &unstructured.Unstructured{Object: fields})
	}

	return objects, nil
}

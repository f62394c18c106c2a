package serve

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the cluster publishes for servers that its API servers pass requests on to.
var publishedKey = client.ObjectKey{Namespace: "kube-system", Name: "extension-apiserver-authentication"}

// published keeps up with what the cluster publishes. What of it cannot be read stays as it was.
//
// The library has a part that does this, by a whole clientset, which would cost every program 2 MB.
type published struct {
	configMaps cache.Cache

	clients, proxies                       authorities
	usernames, uids, groups, extras, names headers
}

// headers is a list of texts that changes.
type headers struct{ atomic.Pointer[[]string] }

// Value implements headerrequest.StringSliceProvider.
func (h *headers) Value() []string {
	if list := h.Load(); list != nil {
		return *list
	}
	return nil
}

// authorities are certificates that others are verified with, and that change. Before they are known
// nothing is verified.
type authorities struct {
	name string
	pem  atomic.Pointer[[]byte]
	pool atomic.Pointer[x509.CertPool]
}

// Name implements dynamiccertificates.CAContentProvider.
func (a *authorities) Name() string { return a.name }

// AddListener implements dynamiccertificates.CAContentProvider. Nobody needs to be told: they are asked
// for at each request.
func (*authorities) AddListener(dynamiccertificates.Listener) {}

// CurrentCABundleContent implements dynamiccertificates.CAContentProvider.
func (a *authorities) CurrentCABundleContent() []byte {
	if pem := a.pem.Load(); pem != nil {
		return *pem
	}
	return nil
}

// VerifyOptions implements dynamiccertificates.CAContentProvider.
func (a *authorities) VerifyOptions() (x509.VerifyOptions, bool) {
	pool := a.pool.Load()
	return x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, pool != nil
}

func (a *authorities) set(pem string) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return fmt.Errorf("%s holds no certificate", a.name)
	}

	text := []byte(pem)
	a.pem.Store(&text)
	a.pool.Store(pool)

	return nil
}

// newPublished reads what a cluster publishes. It must be started to keep up. tolerant has it begin
// with nothing when that cannot be read.
func newPublished(ctx context.Context, config *rest.Config, tolerant bool) (*published, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}

	p := &published{clients: authorities{name: "client-ca-file"}, proxies: authorities{name: "requestheader-client-ca-file"}}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}

	var configMap corev1.ConfigMap
	err = reader.Get(ctx, publishedKey, &configMap)
	if err == nil {
		err = p.set(&configMap)
	}
	if err != nil && !tolerant {
		return nil, err
	}

	p.configMaps, err = cache.New(config, cache.Options{Scheme: scheme, ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
		Namespaces: map[string]cache.Config{publishedKey.Namespace: {}}, Field: fields.OneTermEqualSelector("metadata.name", publishedKey.Name),
	}}})
	if err != nil {
		return nil, err
	}

	informer, err := p.configMaps.GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return nil, err
	}

	take := func(object any) {
		if configMap, ok := object.(*corev1.ConfigMap); ok {
			_ = p.set(configMap) // What can be read of it is taken.
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: take, UpdateFunc: func(_, now any) { take(now) }})
	return p, err
}

// set takes what a ConfigMap says. A cluster need not have what it says nothing of. Whom to believe is
// taken whole or not at all: a list of names that cannot be read must not let all names in.
func (p *published) set(configMap *corev1.ConfigMap) error {
	var clients error
	if pem := configMap.Data[p.clients.name]; pem != "" {
		clients = p.clients.set(pem)
	}

	proxies := configMap.Data[p.proxies.name]
	if proxies == "" {
		return clients
	}

	lists := map[*headers]*[]string{}
	for key, h := range map[string]*headers{
		"requestheader-username-headers": &p.usernames, "requestheader-uid-headers": &p.uids, "requestheader-group-headers": &p.groups,
		"requestheader-extra-headers-prefix": &p.extras, "requestheader-allowed-names": &p.names,
	} {
		var list []string
		if text := configMap.Data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				return errors.Join(clients, fmt.Errorf("%s is no list of texts: %w", key, err))
			}
		}
		lists[h] = &list
	}

	for h, list := range lists {
		h.Store(list)
	}

	return errors.Join(clients, p.proxies.set(proxies))
}

// requestHeader says whom to believe that they ask in the name of others.
func (p *published) requestHeader() *authenticatorfactory.RequestHeaderConfig {
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider: &p.proxies, AllowedClientNames: &p.names,
		UsernameHeaders: &p.usernames, UIDHeaders: &p.uids, GroupHeaders: &p.groups, ExtraHeaderPrefixes: &p.extras,
	}
}

// config says whom to believe, by flags.
func (h RequestHeader) config(from dynamiccertificates.CAContentProvider) *authenticatorfactory.RequestHeaderConfig {
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   from,
		UsernameHeaders:     headerrequest.StaticStringSlice(h.UsernameHeaders),
		UIDHeaders:          headerrequest.StaticStringSlice(nil),
		GroupHeaders:        headerrequest.StaticStringSlice(h.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StaticStringSlice(h.ExtraHeaderPrefixes),
		AllowedClientNames:  headerrequest.StaticStringSlice(h.AllowedNames),
	}
}

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

// authConfigMapKey is the ConfigMap that the cluster publishes for extension API servers.
var authConfigMapKey = client.ObjectKey{Namespace: "kube-system", Name: "extension-apiserver-authentication"}

// authConfigMap follows the authentication settings in the ConfigMap. Settings that cannot be
// read keep their last value.
//
// The library k8s.io/apiserver has an equivalent that needs a whole clientset, which would add
// 2 MB to every program.
type authConfigMap struct {
	configMaps cache.Cache

	clientCA, proxyCA                                                            caBundle
	usernameHeaders, uidHeaders, groupHeaders, extraHeaderPrefixes, allowedNames stringList
}

// stringList is a list of strings that can be replaced atomically.
type stringList struct{ atomic.Pointer[[]string] }

// Value implements headerrequest.StringSliceProvider.
func (h *stringList) Value() []string {
	if list := h.Load(); list != nil {
		return *list
	}
	return nil
}

// caBundle is a CA bundle that can be replaced atomically. Until it is set, no certificate is
// accepted.
type caBundle struct {
	name string
	pem  atomic.Pointer[[]byte]
	pool atomic.Pointer[x509.CertPool]
}

// Name implements dynamiccertificates.CAContentProvider.
func (a *caBundle) Name() string { return a.name }

// AddListener implements dynamiccertificates.CAContentProvider. Listeners are not notified,
// because the bundle is read at each request.
func (*caBundle) AddListener(dynamiccertificates.Listener) {}

// CurrentCABundleContent implements dynamiccertificates.CAContentProvider.
func (a *caBundle) CurrentCABundleContent() []byte {
	if pem := a.pem.Load(); pem != nil {
		return *pem
	}
	return nil
}

// VerifyOptions implements dynamiccertificates.CAContentProvider.
func (a *caBundle) VerifyOptions() (x509.VerifyOptions, bool) {
	pool := a.pool.Load()
	return x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, pool != nil
}

// setPEM replaces the bundle.
func (a *caBundle) setPEM(pem string) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return fmt.Errorf("%s holds no certificate", a.name)
	}

	text := []byte(pem)
	a.pem.Store(&text)
	a.pool.Store(pool)

	return nil
}

// newAuthConfigMap reads the ConfigMap. The result must be started to follow changes. If
// tolerant is set, a ConfigMap that cannot be read is not an error.
func newAuthConfigMap(ctx context.Context, config *rest.Config, tolerant bool) (*authConfigMap, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}

	p := &authConfigMap{clientCA: caBundle{name: "client-ca-file"}, proxyCA: caBundle{name: "requestheader-client-ca-file"}}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}

	var configMap corev1.ConfigMap
	err = reader.Get(ctx, authConfigMapKey, &configMap)
	if err == nil {
		err = p.updateSettings(&configMap)
	}
	if err != nil && !tolerant {
		return nil, err
	}

	p.configMaps, err = cache.New(config, cache.Options{Scheme: scheme, ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
		Namespaces: map[string]cache.Config{authConfigMapKey.Namespace: {}}, Field: fields.OneTermEqualSelector("metadata.name", authConfigMapKey.Name),
	}}})
	if err != nil {
		return nil, err
	}

	informer, err := p.configMaps.GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return nil, err
	}

	onUpdate := func(object any) {
		if configMap, ok := object.(*corev1.ConfigMap); ok {
			_ = p.updateSettings(configMap) // Settings that cannot be read keep their value.
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: onUpdate, UpdateFunc: func(_, now any) { onUpdate(now) }})
	return p, err
}

// updateSettings takes the settings from the ConfigMap. Settings may be missing. The settings of
// proxies are taken together or not at all: if the list of allowed names cannot be read, all
// names must not become allowed.
func (p *authConfigMap) updateSettings(configMap *corev1.ConfigMap) error {
	var clientErr error
	if pem := configMap.Data[p.clientCA.name]; pem != "" {
		clientErr = p.clientCA.setPEM(pem)
	}

	proxyPEM := configMap.Data[p.proxyCA.name]
	if proxyPEM == "" {
		return clientErr
	}

	lists := map[*stringList]*[]string{}
	for key, h := range map[string]*stringList{
		"requestheader-username-headers": &p.usernameHeaders, "requestheader-uid-headers": &p.uidHeaders, "requestheader-group-headers": &p.groupHeaders,
		"requestheader-extra-headers-prefix": &p.extraHeaderPrefixes, "requestheader-allowed-names": &p.allowedNames,
	} {
		var list []string
		if text := configMap.Data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				return errors.Join(clientErr, fmt.Errorf("%s is not a list of strings: %w", key, err))
			}
		}
		lists[h] = &list
	}

	for h, list := range lists {
		h.Store(list)
	}

	return errors.Join(clientErr, p.proxyCA.setPEM(proxyPEM))
}

// requestHeaderConfig returns the settings of proxies. They follow the ConfigMap.
func (p *authConfigMap) requestHeaderConfig() *authenticatorfactory.RequestHeaderConfig {
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider: &p.proxyCA, AllowedClientNames: &p.allowedNames,
		UsernameHeaders: &p.usernameHeaders, UIDHeaders: &p.uidHeaders, GroupHeaders: &p.groupHeaders, ExtraHeaderPrefixes: &p.extraHeaderPrefixes,
	}
}

// staticConfig returns the settings of proxies from flags.
func (h RequestHeader) staticConfig(from dynamiccertificates.CAContentProvider) *authenticatorfactory.RequestHeaderConfig {
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   from,
		UsernameHeaders:     headerrequest.StaticStringSlice(h.UsernameHeaders),
		UIDHeaders:          headerrequest.StaticStringSlice(nil),
		GroupHeaders:        headerrequest.StaticStringSlice(h.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StaticStringSlice(h.ExtraHeaderPrefixes),
		AllowedClientNames:  headerrequest.StaticStringSlice(h.AllowedNames),
	}
}

package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Annotations by which a manifest requests values of the cluster's configuration.
const (
	// AnnotationInjectProxy is a comma-separated list of containers of a Deployment or DaemonSet
	// that get the environment variables of the cluster's proxy.
	AnnotationInjectProxy = "config.openshift.io/inject-proxy"
	// AnnotationInjectTLS with the value "true" marks ConfigMaps with operator configuration that
	// get the cluster's minimum TLS version and ciphers.
	AnnotationInjectTLS = "config.openshift.io/inject-tls"
)

// The Deployment of the Cluster Version Operator in releases.
const (
	operatorNamespace  = "openshift-cluster-version"
	operatorDeployment = "cluster-version-operator"
)

// injection is what a manifest requests from the cluster's configuration.
type injection struct {
	// proxyContainers are the names of the containers that get the proxy variables.
	proxyContainers []string
	// tls requests the TLS profile in the values of a ConfigMap, apiServerAddress the address of
	// the API server in pods.
	tls, apiServerAddress bool
}

func (i injection) isEmpty() bool {
	return len(i.proxyContainers) == 0 && !i.tls && !i.apiServerAddress
}

// parseInjection returns what a manifest requests, from its kind, name and annotations.
func parseInjection(manifest *unstructured.Unstructured) injection {
	var result injection
	annotations := manifest.GetAnnotations()
	switch manifest.GroupVersionKind().GroupKind().String() {
	case "Deployment.apps", "DaemonSet.apps":
		result.proxyContainers = slices.DeleteFunc(strings.Split(annotations[AnnotationInjectProxy], ","), func(name string) bool { return name == "" })
		result.apiServerAddress = manifest.GetKind() == "Deployment" && manifest.GetNamespace() == operatorNamespace && manifest.GetName() == operatorDeployment
	case "ConfigMap":
		result.tls = annotations[AnnotationInjectTLS] == "true"
	}

	return result
}

// environment holds the injectable values of the cluster's configuration.
type environment struct {
	// proxy are the environment variables of the proxy; empty without a proxy.
	proxy []envVar
	// profile is nil if it is not known.
	profile *tlsProfile
	// host and port are the address of the API server. They are empty if pods use the default
	// address.
	host, port string
}

type envVar struct{ Name, Value string }

// readEnvironment reads the cluster's configuration. Missing kinds and objects are ignored.
func readEnvironment(ctx context.Context, c client.Client) (environment, error) {
	var result environment
	proxy, err := readClusterConfig(ctx, c, "Proxy")
	if err != nil {
		return result, err
	}

	for _, from := range []struct{ variable, field string }{
		{"HTTP_PROXY", "httpProxy"}, {"HTTPS_PROXY", "httpsProxy"}, {"NO_PROXY", "noProxy"},
	} {
		if value, _, _ := unstructured.NestedString(proxy, "status", from.field); value != "" {
			result.proxy = append(result.proxy, envVar{from.variable, value})
		}
	}

	server, err := readClusterConfig(ctx, c, "APIServer")
	if err != nil {
		return result, err
	}
	if server != nil {
		profile, _, _ := unstructured.NestedMap(server, "spec", "tlsSecurityProfile")
		result.profile = parseTLSProfile(profile)
	}

	infrastructure, err := readClusterConfig(ctx, c, "Infrastructure")
	if err != nil {
		return result, err
	}

	if address, _, _ := unstructured.NestedString(infrastructure, "status", "apiServerInternalURI"); address != "" {
		parsed, err := url.Parse(address)
		if err != nil || parsed.Hostname() == "" {
			return result, fmt.Errorf("reading Infrastructure \"cluster\": status.apiServerInternalURI must be the URL of the API server, not %q", address)
		}
		result.host = parsed.Hostname()
		result.port = parsed.Port()
	}

	return result, nil
}

// readClusterConfig returns the configuration object "cluster" of a kind; nil if the object does
// not exist or the kind is not served.
func readClusterConfig(ctx context.Context, c client.Client, kind string) (map[string]any, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("config.openshift.io/v1")
	object.SetKind(kind)
	err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, object)
	switch {
	case apierrors.IsNotFound(err), isKindNotServed(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s \"cluster\": %w", kind, err)
	}

	return object.Object, nil
}

// injectInto returns a copy of an object with the requested values, and a text that identifies
// these values. It does not change u.
func (i injection) injectInto(u *unstructured.Unstructured, e environment) (*unstructured.Unstructured, string, error) {
	if i.isEmpty() {
		return u, "", nil
	}

	u = u.DeepCopy()
	var got []any
	if len(i.proxyContainers) > 0 {
		if err := injectProxy(u, i.proxyContainers, e.proxy); err != nil {
			return nil, "", err
		}
		got = append(got, e.proxy)
	}

	if i.apiServerAddress && e.host != "" {
		address := []envVar{{"KUBERNETES_SERVICE_HOST", e.host}}
		if e.port != "" {
			address = append(address, envVar{"KUBERNETES_SERVICE_PORT", e.port})
		}
		if err := forEachContainer(u, func(container map[string]any) { setEnvVars(container, address) }); err != nil {
			return nil, "", err
		}
		got = append(got, address)
	}

	if i.tls && e.profile != nil {
		if err := injectTLSProfile(u, e.profile); err != nil {
			return nil, "", err
		}
		got = append(got, e.profile)
	}

	encoded, err := json.Marshal(got)
	return u, string(encoded), err
}

func injectProxy(u *unstructured.Unstructured, names []string, proxy []envVar) error {
	missing := slices.Clone(names)
	err := forEachContainer(u, func(container map[string]any) {
		name, _ := container["name"].(string)
		if slices.Contains(names, name) {
			missing = slices.DeleteFunc(missing, func(other string) bool { return other == name })
			setEnvVars(container, proxy)
		}
	})
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("annotation %s: there is no container %q", AnnotationInjectProxy, missing[0])
	}
	return err
}

// forEachContainer calls a function with each container and init container of a pod template.
func forEachContainer(u *unstructured.Unstructured, change func(container map[string]any)) error {
	for _, field := range []string{"initContainers", "containers"} {
		value, ok, err := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec", field)
		if err != nil {
			return err
		}

		list, isList := value.([]any)
		if ok && !isList {
			return fmt.Errorf("spec.template.spec.%s: must be a list", field)
		}

		for _, item := range list {
			if container, ok := item.(map[string]any); ok {
				change(container)
			}
		}
	}

	return nil
}

// setEnvVars sets environment variables of a container.
func setEnvVars(container map[string]any, variables []envVar) {
	list, _ := container["env"].([]any)
	for _, v := range variables {
		list = slices.DeleteFunc(list, func(item any) bool {
			existing, _ := item.(map[string]any)
			return existing["name"] == v.Name
		})
		list = append(list, map[string]any{"name": v.Name, "value": v.Value})
	}

	if len(list) > 0 {
		container["env"] = list
	}
}

// injectTLSProfile writes the profile into the values of a ConfigMap that hold a
// GenericOperatorConfig.
func injectTLSProfile(u *unstructured.Unstructured, profile *tlsProfile) error {
	values, _, err := unstructured.NestedStringMap(u.Object, "data")
	if err != nil {
		return err
	}

	for key, value := range values {
		var config map[string]any
		// Other values, and values that are no YAML, are left alone.
		if yaml.Unmarshal([]byte(value), &config) != nil || config["kind"] != "GenericOperatorConfig" || config["apiVersion"] != "operator.openshift.io/v1alpha1" {
			continue
		}

		serving, _ := config["servingInfo"].(map[string]any)
		if serving == nil {
			serving = map[string]any{}
		}

		serving["minTLSVersion"] = profile.MinVersion
		serving["cipherSuites"] = profile.Ciphers
		config["servingInfo"] = serving
		text, err := yaml.Marshal(config)
		if err != nil {
			return fmt.Errorf("data[%q]: %w", key, err)
		}
		if err := unstructured.SetNestedField(u.Object, string(text), "data", key); err != nil {
			return err
		}
	}

	return nil
}

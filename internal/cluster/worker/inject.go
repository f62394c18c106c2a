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

// Annotations by which a manifest asks for parts of the cluster's configuration.
const (
	// AnnotationInjectProxy lists, with commas, containers of a Deployment or DaemonSet that
	// get the environment variables of the cluster's proxy.
	AnnotationInjectProxy = "config.openshift.io/inject-proxy"
	// AnnotationInjectTLS, with the value "true", is for ConfigMaps with configuration of
	// operators: it gets the cluster's TLS versions and ciphers.
	AnnotationInjectTLS = "config.openshift.io/inject-tls"
)

// The Deployment that runs this program, in releases of the field.
const (
	ownNamespace = "openshift-cluster-version"
	ownName      = "cluster-version-operator"
)

// injection is what a manifest asks of the cluster's configuration.
type injection struct {
	// proxy are the containers that get the proxy.
	proxy []string
	// tls says that values get the TLS profile, address that the pods get the address of
	// the API server.
	tls, address bool
}

func (i injection) isNothing() bool { return len(i.proxy) == 0 && !i.tls && !i.address }

func injectionOf(manifest *unstructured.Unstructured) injection {
	var result injection
	annotations := manifest.GetAnnotations()
	switch manifest.GroupVersionKind().GroupKind().String() {
	case "Deployment.apps", "DaemonSet.apps":
		result.proxy = slices.DeleteFunc(strings.Split(annotations[AnnotationInjectProxy], ","), func(name string) bool { return name == "" })
		result.address = manifest.GetKind() == "Deployment" && manifest.GetNamespace() == ownNamespace && manifest.GetName() == ownName
	case "ConfigMap":
		result.tls = annotations[AnnotationInjectTLS] == "true"
	}

	return result
}

// environment is what the cluster's configuration says.
type environment struct {
	// proxy are environment variables; empty without a proxy.
	proxy []variable
	// profile is nil when it is not known.
	profile *tlsProfile
	// host and port are where the API server is to be reached; empty when it is where pods
	// find it anyway.
	host, port string
}

type variable struct{ Name, Value string }

// readEnvironment reads the cluster's configuration. Kinds and objects that are not there
// say nothing.
func readEnvironment(ctx context.Context, c client.Client) (environment, error) {
	var result environment
	proxy, err := readConfig(ctx, c, "Proxy")
	if err != nil {
		return result, err
	}

	for _, from := range []struct{ variable, field string }{
		{"HTTP_PROXY", "httpProxy"}, {"HTTPS_PROXY", "httpsProxy"}, {"NO_PROXY", "noProxy"},
	} {
		if value, _, _ := unstructured.NestedString(proxy, "status", from.field); value != "" {
			result.proxy = append(result.proxy, variable{from.variable, value})
		}
	}

	server, err := readConfig(ctx, c, "APIServer")
	if err != nil {
		return result, err
	}
	if server != nil {
		profile, _, _ := unstructured.NestedMap(server, "spec", "tlsSecurityProfile")
		result.profile = profileOf(profile)
	}

	infrastructure, err := readConfig(ctx, c, "Infrastructure")
	if err != nil {
		return result, err
	}

	if address, _, _ := unstructured.NestedString(infrastructure, "status", "apiServerInternalURI"); address != "" {
		parsed, err := url.Parse(address)
		if err != nil || parsed.Hostname() == "" {
			return result, fmt.Errorf("reading Infrastructure \"cluster\": status.apiServerInternalURI must be the URL of the API server, not %q", address)
		}
		result.host, result.port = parsed.Hostname(), parsed.Port()
	}

	return result, nil
}

func readConfig(ctx context.Context, c client.Client, kind string) (map[string]any, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("config.openshift.io/v1")
	object.SetKind(kind)
	err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, object)
	switch {
	case apierrors.IsNotFound(err), isKindMissing(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s \"cluster\": %w", kind, err)
	}

	return object.Object, nil
}

// into returns an object with what it asks for, and a text about what it got. The object
// itself is not changed.
func (i injection) into(u *unstructured.Unstructured, e environment) (*unstructured.Unstructured, string, error) {
	if i.isNothing() {
		return u, "", nil
	}

	u = u.DeepCopy()
	var got []any
	if len(i.proxy) > 0 {
		if err := injectProxy(u, i.proxy, e.proxy); err != nil {
			return nil, "", err
		}
		got = append(got, e.proxy)
	}

	if i.address && e.host != "" {
		address := []variable{{"KUBERNETES_SERVICE_HOST", e.host}}
		if e.port != "" {
			address = append(address, variable{"KUBERNETES_SERVICE_PORT", e.port})
		}
		if err := eachContainer(u, func(container map[string]any) { setVariables(container, address) }); err != nil {
			return nil, "", err
		}
		got = append(got, address)
	}

	if i.tls && e.profile != nil {
		if err := injectTLS(u, e.profile); err != nil {
			return nil, "", err
		}
		got = append(got, e.profile)
	}

	encoded, err := json.Marshal(got)
	return u, string(encoded), err
}

func injectProxy(u *unstructured.Unstructured, names []string, proxy []variable) error {
	missing := slices.Clone(names)
	err := eachContainer(u, func(container map[string]any) {
		name, _ := container["name"].(string)
		if slices.Contains(names, name) {
			missing = slices.DeleteFunc(missing, func(other string) bool { return other == name })
			setVariables(container, proxy)
		}
	})
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("annotation %s: there is no container %q", AnnotationInjectProxy, missing[0])
	}
	return err
}

// eachContainer calls a function with the containers of a template of pods.
func eachContainer(u *unstructured.Unstructured, change func(container map[string]any)) error {
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

// setVariables sets environment variables of a container.
func setVariables(container map[string]any, variables []variable) {
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

// injectTLS writes the profile into those values that configure an operator.
func injectTLS(u *unstructured.Unstructured, profile *tlsProfile) error {
	values, _, err := unstructured.NestedStringMap(u.Object, "data")
	if err != nil {
		return err
	}

	for key, value := range values {
		var config map[string]any
		// What is no YAML, or something else, is left alone.
		if yaml.Unmarshal([]byte(value), &config) != nil || config["kind"] != "GenericOperatorConfig" || config["apiVersion"] != "operator.openshift.io/v1alpha1" {
			continue
		}

		serving, _ := config["servingInfo"].(map[string]any)
		if serving == nil {
			serving = map[string]any{}
		}

		serving["minTLSVersion"], serving["cipherSuites"] = profile.MinVersion, profile.Ciphers
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

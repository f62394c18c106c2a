package csvinfo

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// DefaultPort is the default port of a webhook or an aggregated API.
const DefaultPort int32 = 443

// ServiceName returns the name of the Service for a Deployment that serves webhooks or APIs:
// dots become dashes, and the name has at most 63 characters.
func ServiceName(deployment string) string { return render.ServiceName(deployment) }

// KeyServingCA is the key in a serving Secret for the certificate of the authority. Despite its name
// it contains no private key.
const KeyServingCA = "olmCAKey"

// SecretName returns the name of the Secret with the serving certificate of such a Deployment.
func SecretName(deployment string) string { return ServiceName(deployment) + "-cert" }

// Endpoint is a Deployment of a CSV that serves webhooks or aggregated APIs.
type Endpoint struct {
	Deployment v1alpha1.StrategyDeploymentSpec
	// Ports are the ports of the Service, sorted by number.
	Ports []corev1.ServicePort
	// ServesAPIs is set if the Deployment serves aggregated APIs.
	ServesAPIs bool
}

// ServiceAccount returns the name of the pods' service account.
func (e *Endpoint) ServiceAccount() string {
	return cmp.Or(e.Deployment.Spec.Template.Spec.ServiceAccountName, "default")
}

// Endpoints returns the Deployments of the strategy that serve webhooks or aggregated APIs, in
// the order of the strategy.
func Endpoints(csv *v1alpha1.ClusterServiceVersion) []Endpoint {
	ports := map[string][]corev1.ServicePort{}
	apis := map[string]bool{}
	add := func(deployment string, port int32, target *intstr.IntOrString) {
		port = cmp.Or(port, DefaultPort)
		if slices.ContainsFunc(ports[deployment], func(p corev1.ServicePort) bool { return p.Port == port }) {
			return
		}

		to := intstr.FromInt32(port)
		if target != nil {
			to = *target
		}

		ports[deployment] = append(ports[deployment], corev1.ServicePort{Name: strconv.Itoa(int(port)), Port: port, TargetPort: to})
	}

	for _, w := range csv.Spec.WebhookDefinitions {
		add(w.DeploymentName, w.ContainerPort, w.TargetPort)
	}

	for _, a := range csv.Spec.APIServiceDefinitions.Owned {
		add(a.DeploymentName, a.ContainerPort, nil)
		apis[a.DeploymentName] = true
	}

	var endpoints []Endpoint
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		if open := ports[d.Name]; len(open) > 0 {
			slices.SortFunc(open, func(a, b corev1.ServicePort) int { return cmp.Compare(a.Port, b.Port) })
			endpoints = append(endpoints, Endpoint{Deployment: d, Ports: open, ServesAPIs: apis[d.Name]})
		}
	}

	return endpoints
}

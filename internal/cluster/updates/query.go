package updates

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// DefaultUpstream is the update service that is asked when neither a flag nor the
// ClusterVersion names one.
const DefaultUpstream = "https://api.openshift.com/api/upgrades_info/v1/graph"

// Upstream returns the update service to ask: that of the flag, else that of the
// ClusterVersion, else the default one.
func Upstream(flag, spec string) string {
	switch {
	case flag != "":
		return flag
	case spec != "":
		return spec
	}
	return DefaultUpstream
}

// Query is what a cluster is and wants to know.
type Query struct {
	// Upstream is the address of the update service; see [Upstream].
	Upstream string
	// Channel that the cluster follows. Empty: nobody is asked.
	Channel string
	// ClusterID is the UUID of the cluster.
	ClusterID string
	// Version and Image are those of the release that the cluster runs.
	Version, Image string
	// Architecture of the release that the cluster runs, as Go names it, or "Multi".
	Architecture string
	// WantMulti says that a cluster of one architecture is asked to move to the release of
	// the same version for several. Nothing else is offered to it then.
	WantMulti bool
	// AcceptedRisks are the names of risks that the cluster's administrators accept.
	AcceptedRisks []string
	// Trust holds certificate authorities (PEM) beside those of the system.
	Trust []byte
	// Proxy is that of the cluster.
	Proxy Proxy
}

// Proxy says which requests go over a proxy, in the words of the environment variables
// HTTP_PROXY, HTTPS_PROXY and NO_PROXY. Its zero value leaves it to them.
type Proxy struct {
	HTTP, HTTPS, No string
}

// Result is what is known of the updates of a cluster.
type Result struct {
	// Query is the one that the result answers. It is the zero value until a first one was.
	Query Query
	// Current is the release that the cluster runs, as the update service knows it: with
	// its URL and channels. Nil when the service does not know it.
	Current *configv1.Release
	// Available are the releases that are recommended, by descending version.
	Available []configv1.Release
	// Conditional are the releases that known issues are told of, by descending version,
	// each with a condition Recommended. Those that are recommended are in Available, too.
	Conditional []configv1.ConditionalUpdate
	// Status, Reason and Message are those of the condition RetrievedUpdates.
	Status          metav1.ConditionStatus
	Reason, Message string
}

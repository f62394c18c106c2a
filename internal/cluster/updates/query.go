package updates

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// DefaultUpstream is the update service that is used when neither a flag nor the ClusterVersion
// names one.
const DefaultUpstream = "https://api.openshift.com/api/upgrades_info/v1/graph"

// Upstream returns the update service to query: that of the flag, of the ClusterVersion, or the
// default, in this order.
func Upstream(flag, spec string) string {
	switch {
	case flag != "":
		return flag
	case spec != "":
		return spec
	}
	return DefaultUpstream
}

// Query describes a cluster and the updates that it requests.
type Query struct {
	// Upstream is the URL of the update service; see [Upstream].
	Upstream string
	// Channel is the channel of the cluster. If empty, the update service is not queried.
	Channel string
	// ClusterID is the UUID of the cluster.
	ClusterID string
	// Version and Image are those of the current release of the cluster.
	Version, Image string
	// Architecture is the architecture of the current release, as a GOARCH value, or "Multi".
	Architecture string
	// WantMulti requests the multi-architecture release of the same version, for a cluster of one
	// architecture. No other update is available then.
	WantMulti bool
	// AcceptedRisks are the names of risks that the administrators accept.
	AcceptedRisks []string
	// Trust holds CA certificates (PEM) to trust in addition to those of the system.
	Trust []byte
	// Proxy is the proxy configuration of the cluster.
	Proxy Proxy
}

// Proxy is a proxy configuration, in the syntax of the environment variables HTTP_PROXY,
// HTTPS_PROXY and NO_PROXY. For the zero value, the environment variables of the process are
// used.
type Proxy struct {
	HTTP, HTTPS, No string
}

// Result is the current knowledge about the updates of a cluster.
type Result struct {
	// Query is the query that the result is for. It is the zero value before the first result.
	Query Query
	// Current is the current release with the metadata of the update service, such as its URL and
	// channels. It is nil if the service does not know the release.
	Current *configv1.Release
	// Available are the recommended releases, by descending version.
	Available []configv1.Release
	// Conditional are the releases with known issues, by descending version, each with a
	// Recommended condition. The recommended ones are also in Available.
	Conditional []configv1.ConditionalUpdate
	// Status, Reason and Message are the fields of the RetrievedUpdates condition.
	Status          metav1.ConditionStatus
	Reason, Message string
}

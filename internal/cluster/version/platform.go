package version

import (
	"context"
	"fmt"
	"time"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/risk"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// minObserveInterval is the minimum interval between reads of the platform's configuration. It
// cannot be watched: clusters other than OpenShift do not serve these kinds.
const minObserveInterval = 30 * time.Second

// trustedCABundle is the ConfigMap with the CA certificates that a platform trusts in addition
// to those of the system.
var trustedCABundle = client.ObjectKey{Namespace: "openshift-config-managed", Name: "trusted-ca-bundle"}

// platformConfig is the part of the cluster's configuration that affects the ClusterVersion. All
// fields are empty on a cluster without such configuration.
type platformConfig struct {
	proxy      updates.Proxy
	caBundle   []byte
	featureSet string
	// featureGates are the enabled feature gates by the version of the platform.
	featureGates map[string]sets.Set[string]
}

// releaseCluster returns the properties that select the manifests of a release.
func (p platformConfig) releaseCluster(version, profile, excludeIdentifier string) release.Cluster {
	c := release.Cluster{ExcludeIdentifier: excludeIdentifier, Profile: profile, FeatureSet: p.featureSet, FeatureGates: p.featureGates[version]}
	if v, err := semver.Parse(version); err == nil {
		c.MajorVersion = v.Major
	}
	return c
}

// platformObserver reads the platform's configuration and caches it for minObserveInterval.
type platformObserver struct {
	reader client.Reader
	clock  clock.PassiveClock
	last   platformConfig
	readAt time.Time
}

func (o *platformObserver) readPlatform(ctx context.Context) (platformConfig, error) {
	now := o.clock.Now()
	if !o.readAt.IsZero() && now.Sub(o.readAt) < minObserveInterval && !now.Before(o.readAt) {
		return o.last, nil
	}

	var p platformConfig
	proxy, err := o.readClusterConfig(ctx, "Proxy")
	if err != nil {
		return p, err
	}

	p.proxy = updates.Proxy{HTTP: nestedString(proxy, "status", "httpProxy"), HTTPS: nestedString(proxy, "status", "httpsProxy"), No: nestedString(proxy, "status", "noProxy")}
	gates, err := o.readClusterConfig(ctx, "FeatureGate")
	if err != nil {
		return p, err
	}

	p.featureSet = nestedString(gates, "spec", "featureSet")
	p.featureGates = enabledFeatureGates(gates)
	var bundle corev1.ConfigMap
	if err := o.reader.Get(ctx, trustedCABundle, &bundle); client.IgnoreNotFound(err) != nil {
		return p, fmt.Errorf("reading ConfigMap %s: %w", trustedCABundle, err)
	}

	p.caBundle = []byte(bundle.Data["ca-bundle.crt"])
	o.last = p
	o.readAt = now
	return p, nil
}

// readClusterConfig reads the configuration object "cluster" of a kind. It returns nil if there
// is none.
func (o *platformObserver) readClusterConfig(ctx context.Context, kind string) (map[string]any, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(configv1.GroupVersion.WithKind(kind))
	err := o.reader.Get(ctx, client.ObjectKey{Name: "cluster"}, object)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s \"cluster\": %w", kind, err)
	}

	return object.Object, nil
}

func nestedString(object map[string]any, path ...string) string {
	value, _, err := unstructured.NestedString(object, path...)
	if err != nil {
		return "" // A value of another type counts as empty.
	}
	return value
}

// enabledFeatureGates returns the enabled feature gates by version.
func enabledFeatureGates(object map[string]any) map[string]sets.Set[string] {
	versions, _, err := unstructured.NestedSlice(object, "status", "featureGates")
	if err != nil {
		return nil
	}

	gates := map[string]sets.Set[string]{}
	for _, entry := range versions {
		of, ok := entry.(map[string]any)
		if !ok {
			continue
		}

		enabled, _, err := unstructured.NestedSlice(of, "enabled")
		if err != nil {
			continue
		}

		names := sets.Set[string]{}
		for _, gate := range enabled {
			if fields, ok := gate.(map[string]any); ok {
				names.Insert(nestedString(fields, "name"))
			}
		}

		gates[nestedString(of, "version")] = names
	}

	return gates
}

// riskReader reads ClusterOperators and gates.
type riskReader struct {
	// operators and gates may read from caches, server reads from the API server.
	operators, gates, server client.Reader
}

// findUpdateRisks returns the risks of a minor update. While a release is being accepted, it
// does not use the caches. They may be of different moments: one may show that the last risk is
// gone before the other shows a new one. The kinds are read from the API server one after the
// other, which can have the same effect. So no risk is returned only if two reads in a row find
// none.
func (r riskReader) findUpdateRisks(ctx context.Context, in risk.Input, isAwaitingAcceptance bool) ([]risk.Risk, error) {
	if !isAwaitingAcceptance {
		return findRisks(ctx, in, r.operators, r.gates)
	}

	found, err := findRisks(ctx, in, r.server, r.server)
	if len(found) > 0 || err != nil {
		return found, err
	}

	return findRisks(ctx, in, r.server, r.server)
}

// findRisks reads ClusterOperators and gates, and returns the risks.
func findRisks(ctx context.Context, in risk.Input, ofOperators, ofGates client.Reader) ([]risk.Risk, error) {
	var operators configv1.ClusterOperatorList
	// The objects are not modified.
	if err := ofOperators.List(ctx, &operators, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ClusterOperators: %w", err)
	}

	in.Operators = operators.Items
	var err error
	if in.Gates, err = readConfigMapData(ctx, ofGates, risk.GatesNamespace, risk.GatesName); err != nil {
		return nil, err
	}
	if in.Acks, err = readConfigMapData(ctx, ofGates, risk.AcksNamespace, risk.AcksName); err != nil {
		return nil, err
	}

	return risk.Find(in)
}

// readConfigMapData returns the data of a ConfigMap; nil if it does not exist.
func readConfigMapData(ctx context.Context, reader client.Reader, namespace, name string) (map[string]string, error) {
	var configMap corev1.ConfigMap
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &configMap)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	}
	return configMap.Data, nil
}

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

// observeEvery is how often the platform's configuration is read at most. No watch shows
// it: on a cluster that is no OpenShift there are no such kinds.
const observeEvery = 30 * time.Second

// trustedBundle holds authorities that a platform trusts beside those of the system.
var trustedBundle = client.ObjectKey{Namespace: "openshift-config-managed", Name: "trusted-ca-bundle"}

// platform is what the cluster's configuration says that concerns its version. All of it
// is absent on a cluster that has no such configuration.
type platform struct {
	proxy      updates.Proxy
	trust      []byte
	featureSet string
	// gates are the feature gates that are on, by the version of the platform that says so.
	gates map[string]sets.Set[string]
}

// cluster tells which manifests of a release belong to the cluster.
func (p platform) cluster(version, profile, excludeIdentifier string) release.Cluster {
	c := release.Cluster{ExcludeIdentifier: excludeIdentifier, Profile: profile, FeatureSet: p.featureSet, FeatureGates: p.gates[version]}
	if v, err := semver.Parse(version); err == nil {
		c.MajorVersion = v.Major
	}
	return c
}

// observer reads the platform's configuration, and keeps it for a while.
type observer struct {
	reader client.Reader
	clock  clock.PassiveClock
	last   platform
	read   time.Time
}

func (o *observer) platform(ctx context.Context) (platform, error) {
	now := o.clock.Now()
	if !o.read.IsZero() && now.Sub(o.read) < observeEvery && !now.Before(o.read) {
		return o.last, nil
	}

	var p platform
	proxy, err := o.config(ctx, "Proxy")
	if err != nil {
		return p, err
	}

	p.proxy = updates.Proxy{HTTP: text(proxy, "status", "httpProxy"), HTTPS: text(proxy, "status", "httpsProxy"), No: text(proxy, "status", "noProxy")}
	gates, err := o.config(ctx, "FeatureGate")
	if err != nil {
		return p, err
	}

	p.featureSet, p.gates = text(gates, "spec", "featureSet"), enabledGates(gates)
	var bundle corev1.ConfigMap
	if err := o.reader.Get(ctx, trustedBundle, &bundle); client.IgnoreNotFound(err) != nil {
		return p, fmt.Errorf("reading ConfigMap %s: %w", trustedBundle, err)
	}

	p.trust = []byte(bundle.Data["ca-bundle.crt"])
	o.last, o.read = p, now
	return p, nil
}

// config reads the one object, "cluster", of a kind of the platform's configuration. It
// gives nil where there is none.
func (o *observer) config(ctx context.Context, kind string) (map[string]any, error) {
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

func text(object map[string]any, path ...string) string {
	value, _, err := unstructured.NestedString(object, path...)
	if err != nil {
		return "" // What is no text says nothing.
	}
	return value
}

// enabledGates returns the feature gates that are on, by version.
func enabledGates(object map[string]any) map[string]sets.Set[string] {
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
				names.Insert(text(fields, "name"))
			}
		}

		gates[text(of, "version")] = names
	}

	return gates
}

// risks finds what stands against minor updates. While a release is being judged nothing is read
// from caches, which are of two moments: one may have seen the last risk go while the other has
// not seen the next one come. Reading the API server kind by kind takes time too, so that then
// only what is found twice is nothing: what came before the last risk went is seen by one of the
// two.
func (c *Controller) risks(ctx context.Context, cv *configv1.ClusterVersion, isUpdating bool, deleting []string) ([]risk.Risk, error) {
	in := risk.Input{Version: cv.Status.Desired.Version, Updating: isUpdating, Overrides: cv.Spec.Overrides, Deletions: deleting}
	if !c.isPursuing {
		return findRisks(ctx, in, c.client, c.gates)
	}

	found, err := findRisks(ctx, in, c.reader, c.reader)
	if len(found) > 0 || err != nil {
		return found, err
	}

	return findRisks(ctx, in, c.reader, c.reader)
}

// findRisks reads the rest of what risks are found in.
func findRisks(ctx context.Context, in risk.Input, ofOperators, ofGates client.Reader) ([]risk.Risk, error) {
	var operators configv1.ClusterOperatorList
	// They are only read.
	if err := ofOperators.List(ctx, &operators, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ClusterOperators: %w", err)
	}

	in.Operators = operators.Items
	var err error
	if in.Gates, err = data(ctx, ofGates, risk.GatesNamespace, risk.GatesName); err != nil {
		return nil, err
	}
	if in.Acks, err = data(ctx, ofGates, risk.AcksNamespace, risk.AcksName); err != nil {
		return nil, err
	}

	return risk.Find(in)
}

// data reads a ConfigMap. One that is absent holds nothing.
func data(ctx context.Context, reader client.Reader, namespace, name string) (map[string]string, error) {
	var configMap corev1.ConfigMap
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &configMap)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	}
	return configMap.Data, nil
}

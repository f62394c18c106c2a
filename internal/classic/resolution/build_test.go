package resolution_test

import (
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// namespace is the namespace of the Subscriptions, and global that of global catalogs.
const (
	namespace = "ns"
	global    = "olm"
)

// option changes an entry.
type option func(*resolution.Entry)

// entry returns a channel entry with the name PACKAGE.vVERSION.
func entry(pkg, channel, version string, options ...option) *resolution.Entry {
	e := &resolution.Entry{Channel: channel, Bundle: &resolution.Bundle{Name: pkg + ".v" + version, Package: pkg, Version: version, Image: "registry/" + pkg}}
	property(fbc.PropertyPackage, `{"packageName":%q,"version":%q}`, pkg, version)(e)
	for _, o := range options {
		o(e)
	}
	return e
}

func replaces(name string) option { return func(e *resolution.Entry) { e.Replaces = name } }
func skips(names ...string) option {
	return func(e *resolution.Entry) { e.Skips = names }
}
func skipRange(text string) option { return func(e *resolution.Entry) { e.SkipRange = text } }

func property(kind, format string, args ...any) option {
	value := json.RawMessage(fmt.Sprintf(format, args...))
	return func(e *resolution.Entry) { e.Properties = append(e.Properties, fbc.Property{Type: kind, Value: value}) }
}

func provides(kind string) option {
	return property(fbc.PropertyGVK, `{"group":"example.com","version":"v1","kind":%q}`, kind)
}

func requires(kind string) option {
	return property(fbc.PropertyGVKRequired, `{"group":"example.com","version":"v1","kind":%q}`, kind)
}

func needs(pkg, versions string) option {
	return property(fbc.PropertyPackageRequired, `{"packageName":%q,"versionRange":%q}`, pkg, versions)
}

func constraint(format string, args ...any) option {
	return property(fbc.PropertyConstraint, format, args...)
}

// line returns the entries of a channel, oldest first. Each entry replaces the previous one.
func line(pkg, channel string, versions ...string) []*resolution.Entry {
	var entries []*resolution.Entry
	for i, v := range versions {
		e := entry(pkg, channel, v)
		if i > 0 {
			e.Replaces = entries[i-1].Name
		}
		entries = append(entries, e)
	}

	return entries
}

// catalog returns an offer in the namespace of global catalogs. The default channel of each package is
// "stable".
func catalog(name string, priority int, entries ...*resolution.Entry) resolution.Offer {
	return catalogIn(global, name, priority, entries...)
}

func catalogIn(ns, name string, priority int, entries ...*resolution.Entry) resolution.Offer {
	packages := map[string]resolution.Package{}
	for _, e := range entries {
		packages[e.Package] = resolution.Package{DefaultChannel: "stable"}
	}
	return resolution.Offer{Snapshot: resolution.NewSnapshot(types.NamespacedName{Namespace: ns, Name: name}, packages, entries), Priority: priority}
}

// subscription returns a Subscription to a package of catalog "c", with the name of the package.
func subscription(pkg, channel string, change ...func(*v1alpha1.Subscription)) *v1alpha1.Subscription {
	sub := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pkg},
		Spec:       v1alpha1.SubscriptionSpec{CatalogSource: "c", CatalogSourceNamespace: global, Package: pkg, Channel: channel},
	}
	for _, f := range change {
		f(sub)
	}
	return sub
}

func startingAt(csv string) func(*v1alpha1.Subscription) {
	return func(s *v1alpha1.Subscription) { s.Spec.StartingCSV = csv }
}

func has(csv string) func(*v1alpha1.Subscription) {
	return func(s *v1alpha1.Subscription) { s.Status.InstalledCSV = csv }
}

func from(catalog string) func(*v1alpha1.Subscription) {
	return func(s *v1alpha1.Subscription) { s.Spec.CatalogSource = catalog }
}

// csvOf returns the ClusterServiceVersion of an installed entry.
func csvOf(t testing.TB, e *resolution.Entry, change ...func(*v1alpha1.ClusterServiceVersion)) v1alpha1.ClusterServiceVersion {
	t.Helper()
	properties, err := json.Marshal(map[string]any{"properties": e.Properties})
	if err != nil {
		t.Fatal(err)
	}

	csv := v1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: e.Name, Annotations: map[string]string{csvinfo.AnnotationProperties: string(properties)}},
		Spec:       v1alpha1.ClusterServiceVersionSpec{Version: v1alpha1.LooseVersion(e.Version)},
		Status:     v1alpha1.ClusterServiceVersionStatus{Phase: v1alpha1.CSVPhaseSucceeded},
	}
	for _, f := range change {
		f(&csv)
	}

	return csv
}

func inPhase(phase v1alpha1.ClusterServiceVersionPhase) func(*v1alpha1.ClusterServiceVersion) {
	return func(csv *v1alpha1.ClusterServiceVersion) { csv.Status.Phase = phase }
}

func inPlaceOf(name string) func(*v1alpha1.ClusterServiceVersion) {
	return func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.Replaces = name }
}

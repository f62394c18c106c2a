package pull

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	operatorv1alpha1 "github.com/mainstay-dev/mainstay/api/operator/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

var kindsOfMirrors = []string{
	"imagedigestmirrorsets.config.openshift.io", "imagetagmirrorsets.config.openshift.io", "imagecontentsourcepolicies.operator.openshift.io",
}

func addAll(s *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, configv1.AddToScheme, operatorv1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return err
		}
	}

	return nil
}

// removeKind removes a CRD and waits until the server does not serve it any more.
func removeKind(t *testing.T, c client.Client, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), crd.DeepCopy()); err != nil {
		t.Fatal(err)
	}

	env.EventuallyTrue(t, name+" is not served", func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Name: name}, &apiextensionsv1.CustomResourceDefinition{}))
	}, nil)
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: crd.Spec}
}

// asCatalogd returns a connection with exactly the rights of catalogd's roles.
func asCatalogd(t *testing.T, c client.Client, config *rest.Config) *rest.Config {
	t.Helper()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	file, err := os.Open(filepath.Join(root, "config", "rbac", "catalogd", "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	const user = "test-catalogd"
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}}
	meta := metav1.ObjectMeta{Name: user}
	var clusterRole rbacv1.ClusterRole
	var role rbacv1.Role
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	if err := decoder.Decode(&clusterRole); err != nil {
		t.Fatal(err)
	}
	if err := decoder.Decode(&role); err != nil {
		t.Fatal(err)
	}

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: role.Namespace}}
	for _, object := range []client.Object{
		namespace, &clusterRole, &role,
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole.Name}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: role.Namespace}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}},
	} {
		if err := c.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}

	limited := rest.CopyConfig(config)
	limited.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return limited
}

// startManager runs a manager with the runnables that the function adds.
func startManager(t *testing.T, config *rest.Config, add func(ctrl.Manager)) {
	t.Helper()
	mgr, err := env.NewManager(config, ctrl.Options{Scheme: env.Scheme(t, addAll)}, func(mgr ctrl.Manager) error {
		add(mgr)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	env.StartManager(t, mgr)
}

// startWatcher runs a watcher with a short discovery interval.
func startWatcher(t *testing.T, config *rest.Config) *mirrorWatcher {
	t.Helper()
	var w *mirrorWatcher
	startManager(t, config, func(mgr ctrl.Manager) {
		served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			t.Fatal(err)
		}

		w = newMirrorWatcher(mgr.GetCache(), served, mgr.GetEventRecorder("test"), logr.Discard())
		w.discoveryInterval = 20 * time.Millisecond
		if err := mgr.Add(w); err != nil {
			t.Fatal(err)
		}
	})
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}

	return w
}

// The watcher runs in a cluster that serves none of the kinds, then some, then others. It has only
// the rights of catalogd.
func TestMirrorsFollowTheCluster(t *testing.T) {
	config := env.Start(t)
	c := env.Client(t, addAll)
	var kinds []*apiextensionsv1.CustomResourceDefinition
	for _, name := range kindsOfMirrors {
		kinds = append(kinds, removeKind(t, c, name))
	}

	w := startWatcher(t, asCatalogd(t, c, config))
	if rules := w.Rules(); len(rules) != 0 {
		t.Errorf("got rules %v without kinds, want none", rules)
	}

	for _, kind := range kinds {
		if err := c.Create(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}

	digests := &configv1.ImageDigestMirrorSet{
		ObjectMeta: metav1.ObjectMeta{Name: "idms-oc-mirror"},
		Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{
			{Source: "quay.io/operators", Mirrors: []configv1.ImageMirror{"mirror.example.com:5000/operators"}, MirrorSourcePolicy: configv1.NeverContactSource},
		}},
	}

	tags := &configv1.ImageTagMirrorSet{
		ObjectMeta: metav1.ObjectMeta{Name: "itms-oc-mirror"},
		Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: []configv1.ImageTagMirrors{
			{Source: "*.example.org", Mirrors: []configv1.ImageMirror{"mirror.example.com/org"}},
		}},
	}

	policy := &operatorv1alpha1.ImageContentSourcePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "old"},
		Spec: operatorv1alpha1.ImageContentSourcePolicySpec{RepositoryDigestMirrors: []operatorv1alpha1.RepositoryDigestMirrors{
			{Source: "https://quay.io", Mirrors: []string{"mirror.example.com"}},
			{Source: "quay.io/old", Mirrors: []string{"mirror.example.com/old"}},
			{Source: "quay.io/" + strings.Repeat("long/", 400) + "X", Mirrors: []string{"mirror.example.com"}},
		}},
	}

	for _, object := range []client.Object{digests, tags, policy} {
		env.EventuallyTrue(t, "the kind is served", func() bool { return c.Create(t.Context(), object) == nil }, nil)
	}

	byTag := image.MirrorRule{Source: "*.example.org", Mirrors: []image.Mirror{{Location: "mirror.example.com/org", Only: image.TagOnly}}}
	byDigest := image.MirrorRule{Source: "quay.io/operators", Mirrors: []image.Mirror{{Location: "mirror.example.com:5000/operators", Only: image.DigestOnly}}, Blocked: true}
	byPolicy := image.MirrorRule{Source: "quay.io/old", Mirrors: []image.Mirror{{Location: "mirror.example.com/old", Only: image.DigestOnly}}}
	awaitRules(t, w, byTag, byPolicy, byDigest)
	awaitEvent(t, c, "old", `spec.repositoryDigestMirrors[0].source: "https://quay.io": it is a URL: leave out the scheme before the host; spec.repositoryDigestMirrors[2].source: "quay.io/long/`)
	env.EventuallyTrue(t, "the metrics count the invalid entry", func() bool {
		return gauge(t, "mainstay_image_mirror_invalid_entries") == 2 && gauge(t, "mainstay_image_mirror_sources") == 3 &&
			gauge(t, "mainstay_image_mirror_kind_watched") == 3
	}, nil)

	digests.Spec.ImageDigestMirrors[0].MirrorSourcePolicy = ""
	if err := c.Update(t.Context(), digests); err != nil {
		t.Fatal(err)
	}

	byDigest.Blocked = false
	awaitRules(t, w, byTag, byPolicy, byDigest)
	if err := c.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	awaitRules(t, w, byTag, byDigest)
	again := removeKind(t, c, kindsOfMirrors[1])
	awaitRules(t, w, byDigest)
	if err := c.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	tags.ResourceVersion, tags.UID = "", ""
	env.EventuallyTrue(t, "the kind is served again", func() bool { return c.Create(t.Context(), tags) == nil }, nil)
	awaitRules(t, w, byTag, byDigest)
	for _, object := range []client.Object{digests, tags} {
		if err := c.Delete(t.Context(), object); err != nil {
			t.Error(err)
		}
	}
}

// gauge returns the sum of a metric over its labels.
func gauge(t *testing.T, name string) float64 {
	t.Helper()
	registerMetrics()
	families, err := crmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			sum += metric.GetGauge().GetValue()
		}
	}

	return sum
}

func awaitRules(t *testing.T, w *mirrorWatcher, want ...image.MirrorRule) {
	t.Helper()
	env.EventuallyTrue(t, fmt.Sprintf("the rules are %v", want), func() bool { return cmp.Equal(want, w.Rules()) }, nil)
}

func awaitEvent(t *testing.T, c client.Client, name, text string) {
	t.Helper()
	env.EventuallyTrue(t, "there is an event "+text, func() bool {
		var events eventsv1.EventList
		if err := c.List(t.Context(), &events); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && e.Reason == reasonInvalid && e.Type == corev1.EventTypeWarning && strings.Contains(e.Note, text)
		})
	}, nil)
}

// An image of an unreachable registry is pulled from the mirror that the cluster declares for it,
// immediately, and only for the declared kind of references.
func TestPullsByDeclaredMirrors(t *testing.T) {
	config := env.Start(t)
	c := env.Client(t, addAll)
	host := ociregistry.Start(t).Host
	_, digest, _ := strings.Cut(ociregistry.Push(t, host+"/copy/org/cat:v1", image.CatalogSpec(fstest.MapFS{"a/catalog.yaml": {Data: []byte("name: a")}})), "@")

	var puller *Puller
	startManager(t, config, func(mgr ctrl.Manager) {
		var err error
		if puller, err = Setup(mgr, Options{}); err != nil {
			t.Fatal(err)
		}
	})
	pull := func(ref string) error {
		img, err := puller.Pull(t.Context(), ref)
		if err == nil {
			err = img.Close()
		}
		return err
	}

	const tagged = "upstream.invalid/org/cat:v1"
	digested := "upstream.invalid/org/cat@" + digest
	if err := pull(digested); err == nil {
		t.Error("got no error of pulling from a registry that does not exist, want one")
	}

	digests := &configv1.ImageDigestMirrorSet{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{
			{Source: "upstream.invalid/org", Mirrors: []configv1.ImageMirror{configv1.ImageMirror(host + "/copy/org")}, MirrorSourcePolicy: configv1.NeverContactSource},
		}},
	}
	if err := c.Create(t.Context(), digests); err != nil {
		t.Fatal(err)
	}

	env.EventuallyTrue(t, "the image is pulled by digest", func() bool { return pull(digested) == nil }, nil)
	if err := pull(tagged); err == nil || !strings.Contains(err.Error(), "the registry upstream.invalid/org is blocked") {
		t.Errorf("by tag: got error %v, want that the registry is blocked", err)
	}

	tags := &configv1.ImageTagMirrorSet{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: []configv1.ImageTagMirrors{
			{Source: "upstream.invalid/org", Mirrors: []configv1.ImageMirror{configv1.ImageMirror(host + "/copy/org")}},
		}},
	}
	if err := c.Create(t.Context(), tags); err != nil {
		t.Fatal(err)
	}

	env.EventuallyTrue(t, "the image is pulled by tag", func() bool { return pull(tagged) == nil }, nil)
	limited, err := puller.WithLimits(image.Limits{Bytes: 1}).Pull(t.Context(), tagged)
	if err != nil {
		t.Fatalf("with other limits: %v", err)
	}
	if _, err := limited.Extract(t.Context(), "a", t.TempDir()); !image.IsTerminal(err) {
		t.Errorf("got error %v of files that are larger than the limit, want a terminal one", err)
	}
	if err := limited.Close(); err != nil {
		t.Error(err)
	}

	resolved, err := puller.Resolve(t.Context(), tagged)
	if err != nil || resolved != digested {
		t.Errorf("resolved to %s (%v), want %s", resolved, err, digested)
	}

	for _, object := range []client.Object{digests, tags} {
		if err := c.Delete(t.Context(), object); err != nil {
			t.Error(err)
		}
	}

	env.EventuallyTrue(t, "the image is not pulled anymore", func() bool { return pull(digested) != nil }, nil)
}

// Entries that the CRDs reject cannot be created in the cluster.
func TestMirrorKindsAreValidated(t *testing.T) {
	c := env.Client(t, addAll)
	set := func(source string, mirrors ...configv1.ImageMirror) *configv1.ImageDigestMirrorSet {
		return &configv1.ImageDigestMirrorSet{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
			Spec:       configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{{Source: source, Mirrors: mirrors}}},
		}
	}

	for _, good := range []*configv1.ImageDigestMirrorSet{
		set("quay.io", "m.io:5000/a/b_c/d__e/f--g.h"), set("*.example.com", "localhost:5000"), set("quay.io/a", "m.io", "n.io"), set("quay.io/a"),
	} {
		if err := c.Create(t.Context(), good, client.DryRunAll); err != nil {
			t.Errorf("%v: %v", good.Spec, err)
		}
	}

	for _, bad := range []*configv1.ImageDigestMirrorSet{
		set("", "m.io"), set("https://quay.io", "m.io"), set("quay.io/*", "m.io"), set("*", "m.io"), set("*.a.io/b", "m.io"),
		set("quay.io/UPPER", "m.io"), set("quay.io:v1x", "m.io"), set("quay.io", ""), set("quay.io", "*.m.io"), set("quay.io", "m.io", "m.io"),
		set("quay.io/a@sha256:0", "m.io"), set("quay.io", "m.io/"),
	} {
		if err := c.Create(t.Context(), bad, client.DryRunAll); !apierrors.IsInvalid(err) {
			t.Errorf("%v: got error %v, want Invalid", bad.Spec, err)
		}
	}

	unknown := set("quay.io", "m.io")
	unknown.Spec.ImageDigestMirrors[0].MirrorSourcePolicy = "Sometimes"
	if err := c.Create(t.Context(), unknown, client.DryRunAll); !apierrors.IsInvalid(err) {
		t.Errorf("an unknown policy: got error %v, want Invalid", err)
	}
}

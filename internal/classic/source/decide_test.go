package source

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

func TestResolve(t *testing.T) {
	const all = "{kube_major_version}.{kube_minor_version}.{kube_patch_version}"
	for _, tc := range []struct {
		template, version, image, failure string
	}{
		{"q.io/a/b:v" + all, "v1.32.4", "q.io/a/b:v1.32.4", ""},
		{"q.io/a/b:v" + all, "v1.32.4-rc.1+abc", "q.io/a/b:v1.32.4", ""},
		{"q.io/a/b:v{kube_major_version}.{kube_major_version}", "v1.32.4", "q.io/a/b:v1.1", ""},
		{"q.io/a/b:latest", "v1.32.4", "q.io/a/b:latest", ""},
		{"q.io/a/b:v{kube_patch_version}", "v1.32.0", "q.io/a/b:v0", ""},
		{"q.io/a/b:{kube_minor_version}", "", "q.io/a/b:{kube_minor_version}", `cannot construct catalog image reference, because variable(s) "{kube_minor_version}" could not be resolved`},
		{"q.io/a/b:v" + all, "v1.32", "q.io/a/b:v1.32.{kube_patch_version}", `cannot construct catalog image reference, because variable(s) "{kube_patch_version}" could not be resolved`},
		{"q.io/a/b:v" + all, "unknown", "q.io/a/b:v" + all, `cannot construct catalog image reference, because variable(s) "{kube_major_version}", "{kube_minor_version}", "{kube_patch_version}" could not be resolved`},
		{"q.io/a/B:{kube_minor_version}", "", "q.io/a/B:{kube_minor_version}", `cannot construct catalog image reference, because variable(s) "{kube_minor_version}" could not be resolved and one or more template(s) has improper syntax`},
		{"q.io/a/b:v{foobar}", "v1.32.4", "q.io/a/b:v{foobar}", "cannot construct catalog image reference, because one or more template(s) has improper syntax"},
		{"q.io/a/b:v{kube_major_version", "v1.32.4", "q.io/a/b:v{kube_major_version", "cannot construct catalog image reference, because one or more template(s) has improper syntax"},
		{"", "v1.32.4", "", "cannot construct catalog image reference, because one or more template(s) has improper syntax"},
	} {
		got := resolveTemplate(tc.template, tc.version)
		if got.image != tc.image || got.failureMessage() != tc.failure {
			t.Errorf("%q at %q: got image %q, failure %q\nwant %q: %q", tc.template, tc.version, got.image, got.failureMessage(), tc.image, tc.failure)
		}
	}
}

// FuzzResolve: a template either resolves to an image without variables, or to a failure message.
func FuzzResolve(f *testing.F) {
	f.Add("q.io/a/b:v{kube_major_version}", "v1.32.4")
	f.Add("{kube_minor_version}{", "1")
	f.Fuzz(func(t *testing.T, template, version string) {
		if len(template) > 4096 || len(version) > 256 {
			return
		}
		got := resolveTemplate(template, version)
		if got.failureMessage() == "" && strings.ContainsAny(got.image, "{}") {
			t.Errorf("%q resolves to the image %q", template, got.image)
		}
		if again := resolveTemplate(got.image, version); got.failureMessage() == "" && again.image != got.image {
			t.Errorf("%q resolves to %q, which resolves to %q", template, got.image, again.image)
		}
	})
}

func polledCatalog(interval string) *v1alpha1.CatalogSource {
	return &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "olm", CreationTimestamp: metav1.NewTime(time.Unix(10000, 0))},
		Spec: v1alpha1.CatalogSourceSpec{
			SourceType: v1alpha1.SourceTypeGrpc, Image: "q.io/a/b:v1",
			UpdateStrategy: &v1alpha1.UpdateStrategy{RegistryPoll: &v1alpha1.RegistryPoll{Interval: interval}},
		},
	}
}

func TestIsPolled(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.CatalogSource)
		want   bool
	}{
		{"polled", func(*v1alpha1.CatalogSource) {}, true},
		{"no strategy", func(c *v1alpha1.CatalogSource) { c.Spec.UpdateStrategy = nil }, false},
		{"empty strategy", func(c *v1alpha1.CatalogSource) { c.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{} }, false},
		{"no image", func(c *v1alpha1.CatalogSource) { c.Spec.Image, c.Spec.Address = "", "a:1" }, false},
		{"ConfigMap", func(c *v1alpha1.CatalogSource) { c.Spec.SourceType = v1alpha1.SourceTypeConfigmap }, false},
		{"digest", func(c *v1alpha1.CatalogSource) { c.Spec.Image = "q.io/a/b@sha256:00" }, false},
	} {
		c := polledCatalog("45m")
		tc.change(c)
		if got := isPolled(c); got != tc.want {
			t.Errorf("%s: got polls %v", tc.name, got)
		}
	}
}

func TestIntervals(t *testing.T) {
	const text = "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. Error: "
	for _, tc := range []struct {
		interval string
		want     time.Duration
		problem  string
	}{
		{"45m", 45 * time.Minute, ""},
		{"30s", 30 * time.Second, ""},
		{"1h30m0s", 90 * time.Minute, ""},
		{"", 15 * time.Minute, text + `time: invalid duration ""`},
		{"45", 15 * time.Minute, text + `time: missing unit in duration "45"`},
		{"soon", 15 * time.Minute, text + `time: invalid duration "soon"`},
		{"0s", 15 * time.Minute, text + `"0s" is not a positive duration`},
		{"-5m", 15 * time.Minute, text + `"-5m" is not a positive duration`},
	} {
		c := polledCatalog(tc.interval)
		if got, _ := pollInterval(c); got != tc.want || intervalProblem(c) != tc.problem {
			t.Errorf("for %q got %s and %q, want %s and %q", tc.interval, got, intervalProblem(c), tc.want, tc.problem)
		}
	}
}

func TestNextReconcileAfter(t *testing.T) {
	created := time.Unix(10000, 0)
	for _, tc := range []struct {
		name     string
		interval string
		last     time.Duration // after the creation, 0 for none
		now      time.Duration
		want     time.Duration
	}{
		{"short, never polled", "5m", 0, time.Minute, 4 * time.Minute},
		{"short, polled", "5m", 10 * time.Minute, 11 * time.Minute, 4 * time.Minute},
		{"short, under way", "5m", 10 * time.Minute, 15 * time.Minute, 5 * time.Minute},
		{"long", "24h", 0, time.Hour, 15 * time.Minute},
		{"long, soon", "24h", time.Hour, 24*time.Hour + 55*time.Minute, 5 * time.Minute},
		{"long, under way", "24h", time.Hour, 26 * time.Hour, 15 * time.Minute},
	} {
		c := polledCatalog(tc.interval)
		if tc.last > 0 {
			c.Status.LatestImageRegistryPoll = &metav1.Time{Time: created.Add(tc.last)}
		}
		if got := nextReconcileAfter(c, created.Add(tc.now), DefaultResyncInterval); got != tc.want {
			t.Errorf("%s: got the next check in %s, want %s", tc.name, got, tc.want)
		}
	}

	unpolled := polledCatalog("5m")
	unpolled.Spec.UpdateStrategy = nil
	if got := nextReconcileAfter(unpolled, created, DefaultResyncInterval); got != DefaultResyncInterval {
		t.Errorf("without polls: got the next check in %s", got)
	}
}

// pods of one catalog.
type podMaker struct {
	t *testing.T
	c *objects.Catalog
}

func makePods(t *testing.T) podMaker {
	return podMaker{t, &objects.Catalog{CatalogSource: polledCatalog("5m")}}
}

func (m podMaker) pod(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	m.t.Helper()
	p, err := m.c.Pod()
	if err != nil {
		m.t.Fatal(err)
	}

	p.Name = name
	for _, change := range changes {
		change(p)
	}

	return *p
}

func at(second int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(time.Unix(second, 0)) }
}

func shows(imageID string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "registry-server", ImageID: imageID}}
	}
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func isTrue(condition corev1.PodConditionType) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue})
	}
}

func going(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func other(p *corev1.Pod) { p.Labels[objects.LabelPodHash] = "other" }

func shown(p *corev1.Pod) { p.Labels[objects.LabelUpdate] = "" }

func TestPlanPods(t *testing.T) {
	m := makePods(t)
	want := m.pod("")
	for _, tc := range []struct {
		name                string
		pods                []corev1.Pod
		keep, bury, replace string
	}{
		{"none", nil, "", "", ""},
		{"right", []corev1.Pod{m.pod("a")}, "a", "", ""},
		{"wrong", []corev1.Pod{m.pod("a", other)}, "", "", "a"},
		{"going", []corev1.Pod{m.pod("a", going)}, "", "", ""},
		{"going and another", []corev1.Pod{m.pod("a", going), m.pod("b")}, "b", "", ""},
		{"node lost", []corev1.Pod{m.pod("a", isTrue(corev1.DisruptionTarget))}, "", "a", ""},
		{"node lost and another", []corev1.Pod{m.pod("a", isTrue(corev1.DisruptionTarget)), m.pod("b")}, "b", "a", ""},
		{"evicted", []corev1.Pod{m.pod("a", phase(corev1.PodFailed))}, "", "", "a"},
		{"two", []corev1.Pod{m.pod("a", at(1)), m.pod("b", at(2))}, "b", "", "a"},
		{"two, the other way", []corev1.Pod{m.pod("b", at(2)), m.pod("a", at(1))}, "b", "", "a"},
		{"two of a second", []corev1.Pod{m.pod("a", at(1)), m.pod("b", at(1), shown)}, "b", "", "a"},
		{"wrong and right", []corev1.Pod{m.pod("a", other, at(2)), m.pod("b", at(1))}, "b", "", "a"},
	} {
		plan := planPodChanges(tc.pods, &want)
		keep := ""
		if plan.keep != nil {
			keep = plan.keep.Name
		}

		got := []string{keep, names(plan.remove), names(plan.replace)}
		if diff := cmp.Diff([]string{tc.keep, tc.bury, tc.replace}, got); diff != "" {
			t.Errorf("%s: keep, bury, replace (-want +got):\n%s", tc.name, diff)
		}
		if isEmpty := keep != "" && tc.bury == "" && tc.replace == ""; plan.isComplete() != isEmpty {
			t.Errorf("%s: got complete %v", tc.name, plan.isComplete())
		}
	}
}

func names(pods []corev1.Pod) string {
	var all []string
	for _, pod := range pods {
		all = append(all, pod.Name)
	}
	return strings.Join(all, " ")
}

func TestDecidePoll(t *testing.T) {
	m := makePods(t)
	wanted := m.pod("")
	ready := isTrue(corev1.PodReady)
	crashing := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	}
	pod := func(changes ...func(*corev1.Pod)) *corev1.Pod {
		p := m.pod("u", changes...)
		return &p
	}
	serving := []corev1.Pod{m.pod("s", shows("1"))}
	for _, tc := range []struct {
		name    string
		due     bool
		update  *corev1.Pod
		serving []corev1.Pod
		want    pollAction
	}{
		{"not due", false, nil, serving, pollWait},
		{"due", true, nil, serving, pollStart},
		{"begins", false, pod(), serving, pollWait},
		{"never begins", true, pod(), serving, pollFail},
		{"fails", false, pod(phase(corev1.PodFailed)), serving, pollFail},
		{"is unknown", false, pod(phase(corev1.PodUnknown)), serving, pollFail},
		{"crashes", false, pod(crashing), serving, pollFail},
		{"loses its node", false, pod(isTrue(corev1.DisruptionTarget)), serving, pollFail},
		{"is going", false, pod(going), serving, pollWait},
		{"fails while it is deleted", false, pod(going, phase(corev1.PodFailed)), serving, pollWait},
		{"is of another spec", false, pod(other, ready, shows("2")), serving, pollDiscard},
		{"shows the same", false, pod(ready, shows("1")), serving, pollDiscard},
		{"shows another", false, pod(ready, shows("2")), serving, pollPromote},
		{"shows another, late", true, pod(ready, shows("2")), serving, pollPromote},
		{"has an unknown image", false, pod(ready), serving, pollDiscard},
		{"the serving image is unknown", false, pod(ready, shows("2")), []corev1.Pod{m.pod("s")}, pollDiscard},
		{"nothing serves", false, pod(ready, shows("2")), nil, pollDiscard},
		{"one of two serves another", false, pod(ready, shows("2")), []corev1.Pod{m.pod("s", shows("2")), m.pod("t", shows("1"))}, pollPromote},
	} {
		if got := decidePollAction(tc.due, tc.update, &wanted, tc.serving); got != tc.want {
			t.Errorf("%s: got action %d, want %d", tc.name, got, tc.want)
		}
	}
}

// A template sets the image first. An invalid spec is rejected, and a spec that becomes valid resets the status.
func TestDecide(t *testing.T) {
	newCatalog := func(template, image string, edit ...func(*v1alpha1.CatalogSource)) *v1alpha1.CatalogSource {
		c := &v1alpha1.CatalogSource{Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Image: image}}
		if template != "" {
			c.Annotations = map[string]string{v1alpha1.AnnotationCatalogImageTemplate: template}
		}
		c.Status = v1alpha1.CatalogSourceStatus{Reason: v1alpha1.CatalogSourceSpecInvalidError, RegistryServiceStatus: &v1alpha1.RegistryServiceStatus{}}
		for _, e := range edit {
			e(c)
		}
		return c
	}
	const template = "registry.example.com/catalog:v{kube_major_version}.{kube_minor_version}"
	resolved := func(c *v1alpha1.CatalogSource) {
		c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.CatalogSourceTemplatesHaveResolved, Status: metav1.ConditionTrue}}
	}
	for name, c := range map[string]struct {
		catalog              *v1alpha1.CatalogSource
		version              string
		image, invalid       string
		isReset, hasTemplate bool
	}{
		"a valid spec":           {catalog: newCatalog("", "registry.example.com/catalog:v1"), isReset: true},
		"an invalid spec":        {catalog: newCatalog("", ""), invalid: "image and address unset: at least one must be set for sourcetype: grpc"},
		"a template":             {catalog: newCatalog(template, ""), version: "v1.36.0", image: "registry.example.com/catalog:v1.36"},
		"a template that is set": {catalog: newCatalog(template, "registry.example.com/catalog:v1.36"), version: "v1.36.0", isReset: true, hasTemplate: true},
		"a template without a version": {
			catalog: newCatalog(template, ""), invalid: "image and address unset: at least one must be set for sourcetype: grpc", hasTemplate: true,
		},
		"a former template": {catalog: newCatalog("", "registry.example.com/catalog:v1", resolved), isReset: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(c.catalog, &facts{serverVersion: c.version})
			invalid := ""
			if d.invalid != nil {
				invalid = d.invalid.Error()
			}
			if d.image != c.image || invalid != c.invalid {
				t.Errorf("image %q, invalid because %q; want %q and %q", d.image, invalid, c.image, c.invalid)
			}
			if isReset := d.catalog.Status.Reason == ""; isReset != c.isReset || isReset != (d.catalog.Status.RegistryServiceStatus == nil) {
				t.Errorf("got the status %+v, want it reset: %t", d.catalog.Status, c.isReset)
			}
			if has := len(d.catalog.Status.Conditions) > 0; has != c.hasTemplate {
				t.Errorf("conditions %+v", d.catalog.Status.Conditions)
			}
			if c.catalog.Status.Reason == "" {
				t.Error("the catalog itself was changed")
			}
		})
	}
}

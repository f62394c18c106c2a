package serving

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func newCSV() *v1alpha1.ClusterServiceVersion {
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a.v2", UID: "mine"}}
	csv.Spec.Replaces = "a.v1"
	d := v1alpha1.StrategyDeploymentSpec{Name: "a"}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	d.Spec.Template.Labels = map[string]string{"app": "a", "more": "labels"}
	d.Spec.Template.Spec.ServiceAccountName = "sa"
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{d}
	csv.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{Name: "as", Group: "g.example.com", Version: "v1", Kind: "A", DeploymentName: "a"}}

	return csv
}

func newSecretData(t *testing.T, at time.Time, hosts ...string) map[string][]byte {
	t.Helper()
	authority, err := newAuthority(at)
	if err != nil {
		t.Fatal(err)
	}

	data, err := issueSecretData(authority, hosts, at)
	if err != nil {
		t.Fatal(err)
	}

	return data
}

func TestIssueSecretData(t *testing.T) {
	hosts := Hosts("a-service", "ns")
	if diff := cmp.Diff([]string{"a-service.ns", "a-service.ns.svc", "a-service.ns.svc.cluster.local"}, hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}

	data := newSecretData(t, now, hosts...)
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	if name := pair.Leaf.Subject.CommonName; name != hosts[0] || !pair.Leaf.NotAfter.Equal(now.Add(730*24*time.Hour)) {
		t.Errorf("certificate of %s: got the end %s", name, pair.Leaf.NotAfter)
	}

	ca, err := certificate.ParseBundle(data[KeyCA])
	if err != nil || len(ca) != 1 || !strings.HasPrefix(ca[0].Subject.CommonName, "olm-selfsigned-") {
		t.Errorf("got the authority %v, error %v", ca, err)
	}
}

func TestStale(t *testing.T) {
	hosts := Hosts("a-service", "ns")
	good := newSecretData(t, now, hosts...)
	without := func(key string) map[string][]byte {
		data := map[string][]byte{}
		for k, v := range good {
			if k != key {
				data[k] = v
			}
		}
		return data
	}

	other := without(KeyCA)
	other[KeyCA] = newSecretData(t, now, hosts...)[KeyCA]
	odd := without(corev1.TLSCertKey)
	odd[corev1.TLSCertKey] = []byte("odd")
	tests := map[string]struct {
		data map[string][]byte
		at   time.Time
		want string
	}{
		"good":                    {good, now, ""},
		"a second before renewal": {good, now.Add(Validity - RotateBefore - time.Second), ""},
		"at renewal":              {good, now.Add(Validity - RotateBefore), "a certificate ends at 2028-05-03T03:02:01Z"},
		"not yet":                 {good, now.Add(-2 * time.Hour), "a certificate is not valid yet"},
		"no authority":            {without(KeyCA), now, "the authority cannot be read"},
		"no certificate":          {without(corev1.TLSCertKey), now, "the certificate cannot be read"},
		"an invalid one":          {odd, now, "the certificate cannot be read"},
		"no key":                  {without(corev1.TLSPrivateKeyKey), now, "the private key is missing"},
		"another authority":       {other, now, "the certificate is not accepted for host a-service.ns"},
		"a host is missing":       {newSecretData(t, now, hosts[:2]...), now, "the certificate is not accepted for host a-service.ns.svc.cluster.local"},
	}

	for name, tt := range tests {
		if got := StaleReason(&corev1.Secret{Data: tt.data}, hosts, tt.at); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}

	if StaleReason(nil, hosts, now) == "" {
		t.Error("a missing Secret is valid")
	}
	if at := rotationTime(&corev1.Secret{Data: good}); !at.Equal(now.Add(Validity - RotateBefore)) {
		t.Errorf("got the rotation at %s", at)
	}
}

func TestMayAdopt(t *testing.T) {
	phases := map[string]v1alpha1.ClusterServiceVersionPhase{"far/going": "Replacing", "far/gone": "Deleting", "far/well": "Succeeded"}
	may := MayAdopt(newCSV(), func(namespace, name string) v1alpha1.ClusterServiceVersionPhase { return phases[namespace+"/"+name] })
	partly := csvinfo.OwnerLabels("ns", "a.v2")
	delete(partly, csvinfo.LabelOwnerNamespace)
	kind := csvinfo.OwnerLabels("ns", "a.v2")
	kind[csvinfo.LabelOwnerKind] = "OperatorGroup"
	tests := map[string]struct {
		labels map[string]string
		want   bool
	}{
		"its own":                      {csvinfo.OwnerLabels("ns", "a.v2"), true},
		"of the one it replaces":       {csvinfo.OwnerLabels("ns", "a.v1"), true},
		"of its name, other namespace": {csvinfo.OwnerLabels("far", "a.v2"), false},
		"of one that is replaced":      {csvinfo.OwnerLabels("far", "going"), true},
		"of one that is deleted":       {csvinfo.OwnerLabels("far", "gone"), true},
		"of one that is installed":     {csvinfo.OwnerLabels("far", "well"), false},
		"unlabelled":                   {nil, false},
		"a label is missing":           {partly, false},
		"of another kind":              {kind, false},
		"of one that does not exist":   {csvinfo.OwnerLabels("far", "none"), false},
	}

	for name, tt := range tests {
		if got := may(&apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Labels: tt.labels}}); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestNewObjects(t *testing.T) {
	csv := newCSV()
	e := &csvinfo.Endpoints(csv)[0]
	s := newService(csv, e)
	if s.Name != "a-service" || !cmp.Equal(s.Spec.Selector, map[string]string{"app": "a"}) || s.Spec.Ports[0].Port != 443 || s.Spec.Ports[0].Name != "443" || !csvinfo.IsOwner(s.OwnerReferences, csv) {
		t.Errorf("service %+v", s)
	}
	if r := newRole(csv, e); r.Name != "a-service-cert" || !cmp.Equal(r.Rules, []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a-service-cert"}}}) {
		t.Errorf("role %+v", r)
	}

	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ns", Name: "sa"}}
	delegator, reader, binding := newDelegatorBinding(csv, e), newReaderBinding(csv, e), newRoleBinding(csv, e)
	if delegator.Name != "a-service-system:auth-delegator" || delegator.RoleRef.Name != "system:auth-delegator" || !cmp.Equal(delegator.Subjects, subject) {
		t.Errorf("binding %+v", delegator)
	}
	if reader.Name != "a-service-auth-reader" || reader.Namespace != "kube-system" || reader.RoleRef.Name != "extension-apiserver-authentication-reader" || !cmp.Equal(reader.Subjects, subject) {
		t.Errorf("binding %+v", reader)
	}
	if binding.Name != "a-service-cert" || binding.RoleRef.Name != "a-service-cert" || !cmp.Equal(binding.Subjects, subject) {
		t.Errorf("binding %+v", binding)
	}

	api := newAPIService(csv, &csv.Spec.APIServiceDefinitions.Owned[0], []byte("ca"))
	if api.Name != "v1.g.example.com" || *api.Spec.Service.Port != 443 || api.Spec.Service.Name != "a-service" || string(api.Spec.CABundle) != "ca" || api.Labels[csvinfo.LabelManaged] != "true" {
		t.Errorf("got the APIService %+v", api)
	}
}

func TestIssues(t *testing.T) {
	csv := newCSV()
	endpoints := csvinfo.Endpoints(csv)
	data := newSecretData(t, now, Hosts("a-service", "ns")...)
	hash := CAHash(data[KeyCA])
	fresh := func() (*State, *appsv1.Deployment) {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		d.Spec.Template.Annotations = map[string]string{csvinfo.AnnotationCAHash: hash}
		api := newAPIService(csv, &csv.Spec.APIServiceDefinitions.Owned[0], data[KeyCA])
		return &State{
			csv: csv, endpoints: endpoints, secrets: map[string]*corev1.Secret{"a": newSecret(csv, &endpoints[0], data)},
			services: map[string]bool{"a": true}, missing: map[string][]string{}, apis: map[string]*apiregistrationv1.APIService{api.Name: api},
		}, d
	}

	tests := map[string]struct {
		edit func(*State, *appsv1.Deployment)
		want string
	}{
		"none":              {func(*State, *appsv1.Deployment) {}, ""},
		"no APIService":     {func(s *State, _ *appsv1.Deployment) { clear(s.apis) }, "APIService v1.g.example.com not found"},
		"of another":        {func(s *State, _ *appsv1.Deployment) { s.apis["v1.g.example.com"].Labels = nil }, "pre-existing APIService v1.g.example.com is not adoptable"},
		"no Service":        {func(s *State, _ *appsv1.Deployment) { clear(s.services) }, "service ns/a-service not found"},
		"another Service":   {func(s *State, _ *appsv1.Deployment) { s.apis["v1.g.example.com"].Spec.Service.Name = "b" }, "found APIService and service reference mismatch"},
		"no bundle":         {func(s *State, _ *appsv1.Deployment) { s.apis["v1.g.example.com"].Spec.CABundle = nil }, "CA bundle of APIService v1.g.example.com: read certificates: there is no PEM certificate"},
		"no Secret":         {func(s *State, _ *appsv1.Deployment) { clear(s.secrets) }, "secret ns/a-service-cert not found"},
		"another Secret":    {func(s *State, _ *appsv1.Deployment) { s.secrets["a"].Annotations = nil }, "secret a-service-cert CA cert hash does not match expected"},
		"another authority": {func(_ *State, d *appsv1.Deployment) { d.Spec.Template.Annotations = nil }, "deployment a CA cert hash does not match expected"},
		"no right":          {func(s *State, _ *appsv1.Deployment) { s.missing["a"] = []string{"Role ns/a not found"} }, "Role ns/a not found"},
	}

	own := MayAdopt(csv, func(string, string) v1alpha1.ClusterServiceVersionPhase { return "" })
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			state, d := fresh()
			tt.edit(state, d)
			var got []string
			for _, err := range state.Issues(func(string) *appsv1.Deployment { return d }, own) {
				got = append(got, err.Error())
			}

			if strings.Join(got, "|") != tt.want {
				t.Errorf("issues %q, want %q", got, tt.want)
			}
		})
	}

	state, _ := fresh()
	if got := state.Issues(func(string) *appsv1.Deployment { return nil }, own); len(got) != 1 || got[0].Error() != "deployment ns/a not found" {
		t.Errorf("without the Deployment: got the issues %v", got)
	}
	if state.MustRotate(now) || !state.MustRotate(now.Add(Validity)) || state.CAHashes()["a"] != hash || len(state.Unavailable()) != 1 {
		t.Error("got the wrong rotation, hashes or unavailable APIServices in the state")
	}
}

func TestIsDisruption(t *testing.T) {
	pod := func(edit func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		edit(&p)
		return p
	}
	waits := func(reason string) corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		})
	}
	pending := pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })
	old := pod(func(p *corev1.Pod) {
		p.Status.Phase, p.CreationTimestamp = corev1.PodPending, metav1.NewTime(now.Add(-maxStartupTime))
	})
	ends := pod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })
	nowhere := pod(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	})
	tests := map[string]struct {
		pods []corev1.Pod
		want bool
	}{
		"no pods":                      {nil, false},
		"all run":                      {[]corev1.Pod{pod(func(*corev1.Pod) {})}, false},
		"one ends":                     {[]corev1.Pod{ends}, true},
		"a pending pod":                {[]corev1.Pod{pending}, true},
		"a pod that is created":        {[]corev1.Pod{waits("ContainerCreating")}, true},
		"a pod that is initializing":   {[]corev1.Pod{waits("PodInitializing")}, true},
		"a pod that waits too long":    {[]corev1.Pod{old}, false},
		"a pod without its image":      {[]corev1.Pod{waits("ImagePullBackOff")}, false},
		"a pending and a crashing pod": {[]corev1.Pod{pending, waits("CrashLoopBackOff")}, false},
		"a pod that is unschedulable":  {[]corev1.Pod{nowhere}, false},
	}

	for name, tt := range tests {
		if got := IsDisruption(&appsv1.Deployment{}, tt.pods, now); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}

	if IsDisruption(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}}, []corev1.Pod{ends}, now) || IsDisruption(nil, []corev1.Pod{ends}, now) {
		t.Error("a Deployment that has not been observed is disrupted")
	}
}

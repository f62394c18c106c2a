package console_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
	"github.com/mainstay-dev/mainstay/internal/console"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// newKettle returns a fixture with the package kettle in its namespace. PackageManifests are objects of a CRD here.
func newKettle(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, nil)
	for _, add := range []func() error{
		func() error { return apiextensionsv1.AddToScheme(f.Scheme()) }, func() error { return operatorsv1.AddToScheme(f.Scheme()) }, func() error { return packagesv1.AddToScheme(f.Scheme()) },
	} {
		f.Must(add())
	}
	crd := builder.OpenCRD("packages.operators.coreos.com", "packagemanifests", "PackageManifest")
	f.Must(client.IgnoreAlreadyExists(f.Create(t.Context(), crd)))

	p := &packagesv1.PackageManifest{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "kettle"}}
	p.Status.CatalogSource, p.Status.CatalogSourceNamespace, p.Status.PackageName, p.Status.DefaultChannel = "home", "olm", "kettle", "stable"
	desc := packagesv1.CSVDescription{
		InstallModes: []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true}},
		Annotations:  map[string]string{"operatorframework.io/suggested-namespace": "kettles", "features.operators.openshift.io/token-auth-aws": "true", "operatorframework.io/suggested-namespace-template": "{"},
	}
	p.Status.Channels = []packagesv1.PackageChannel{{
		Name: "stable", CurrentCSV: "kettle.v1.1.0", CurrentCSVDesc: desc,
		Entries: []packagesv1.ChannelEntry{{Name: "kettle.v1.1.0", Version: "1.1.0"}, {Name: "kettle.v1.0.0", Version: "1.0.0"}},
	}}
	f.Eventually("package kettle exists", func() error { return client.IgnoreAlreadyExists(f.Create(t.Context(), p)) })
	return f
}

// subscriberRules are the rights that a user needs in a namespace to install and remove operators of OLM Classic.
var subscriberRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "create", "patch", "delete"}},
	{APIGroups: []string{"packages.operators.coreos.com"}, Resources: []string{"packagemanifests"}, Verbs: []string{"get", "list"}},
}

func TestInstallSubscription(t *testing.T) {
	f := newKettle(t)
	b := f.signIn(f.newUser("subscriber", f.namespace, subscriberRules...))
	namespace := "/api/v1/namespaces/" + f.namespace

	var offer subscription.Offer
	b.do(http.MethodGet, namespace+"/subscription-offers/kettle", nil, &offer)
	if d := offer.Details; len(d) != 1 || d[0].SuggestedNamespace != "kettles" || !slices.Equal(d[0].Clouds, []string{"aws"}) || !offer.NamespaceExists || offer.DefaultNamespace != "olm" {
		t.Errorf("got %+v, want the recommendations of the annotations, and the namespace of the catalog, because no other sees the package", offer)
	}
	if versions := offer.Channels[0].Versions; versions[0].NeedsManual != "" || !strings.Contains(versions[1].NeedsManual, "kettle.v1.0.0 is not the newest version") {
		t.Errorf("got %+v, want that only the older version needs approval Manual", offer)
	}

	request := console.SubscriptionRequest{
		Package: "kettle", Catalog: "olm/home", Channel: "stable", StartingCSV: "kettle.v1.0.0",
		Env: []console.EnvVariable{{Name: "ROLEARN", Value: "arn:aws:iam::1:role/kettle"}, {Name: "EMPTY", Value: " "}},
	}
	var preview console.SubscriptionPreview
	b.do(http.MethodPost, namespace+"/subscription-previews", request, &preview)
	if len(preview.Objects) != 2 || preview.Objects[0].Kind != "OperatorGroup" || preview.CSV != "kettle.v1.0.0" || !slices.Equal(preview.Watches, []string{f.namespace}) {
		t.Errorf("got %+v, want an OperatorGroup for the own namespace and the Subscription", preview)
	}
	if warnings := strings.Join(preview.Warnings, "\n"); !strings.Contains(warnings, "not the newest") || !strings.Contains(warnings, "recommends namespace kettles") {
		t.Errorf("got the warnings %q", preview.Warnings)
	}

	nobody := f.signIn(f.newUser("nobody", f.namespace, subscriberRules[1], rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}))
	if got := nobody.send(nobody.newRequest(http.MethodPost, namespace+"/subscriptions", request)); got.Code != http.StatusForbidden {
		t.Errorf("a user who may not create Subscriptions: got %d %s, want 403", got.Code, got.Body)
	}

	b.do(http.MethodPost, namespace+"/subscriptions", request, nil)
	sub := &v1alpha1.Subscription{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "kettle"}, sub))
	if env := sub.Spec.Config.Env; len(env) != 1 || env[0].Name != "ROLEARN" || sub.Spec.StartingCSV != "kettle.v1.0.0" {
		t.Errorf("got %+v, want the version and only the variable with a value", sub.Spec)
	}

	sub.Spec.InstallPlanApproval = v1alpha1.ApprovalManual
	f.Must(f.Update(t.Context(), sub))
	b.do(http.MethodGet, namespace+"/subscription-offers/kettle", nil, &offer)
	if head := offer.Channels[0].Versions[0]; !slices.Equal(offer.ManualSiblings, []string{"kettle"}) || head.NeedsManual != "" {
		t.Errorf("got the siblings %q and %+v, want that the approval of another Subscription does not require approval Manual", offer.ManualSiblings, head)
	}

	google := request
	google.Name = "google"
	for _, name := range []string{"PROJECT_NUMBER", "POOL_ID", "PROVIDER_ID", "SERVICE_ACCOUNT_EMAIL"} {
		google.Env = append(google.Env, console.EnvVariable{Name: name, Value: strings.ToLower(name)})
	}
	b.do(http.MethodPost, namespace+"/subscription-previews", google, &preview)
	const waits = "In the namespace, approval is Manual for kettle. Upgrades that depend on it wait for its approval."
	if !slices.Contains(preview.Warnings, waits) {
		t.Errorf("got the warnings %q, want %q among them", preview.Warnings, waits)
	}
	const audience = "//iam.googleapis.com/projects/project_number/locations/global/workloadIdentityPools/pool_id/providers/provider_id"
	if got := preview.Objects[len(preview.Objects)-1].YAML; !strings.Contains(got, "name: AUDIENCE\n") || !strings.Contains(got, "value: "+audience+"\n") {
		t.Errorf("got %s, want the variable AUDIENCE with %s", got, audience)
	}

	configured := request
	configured.Name = "configured"
	configured.Config = map[string]any{
		"env": []any{map[string]any{"name": "HTTPS_PROXY", "value": "proxy.example.com"}}, "nodeSelector": map[string]any{"disk": "fast"},
		"tolerations": []any{map[string]any{"key": "kettle", "operator": "Exists"}}, "resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}},
	}
	b.do(http.MethodPost, namespace+"/subscription-previews", configured, nil)
	b.do(http.MethodPost, namespace+"/subscriptions", configured, nil)
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "configured"}, sub))
	config := sub.Spec.Config
	if len(config.Env) != 2 || config.Env[0].Name != "HTTPS_PROXY" || config.Env[1].Name != "ROLEARN" {
		t.Errorf("got the variables %+v, want those of the configuration and the filled credential", config.Env)
	}
	if config.NodeSelector["disk"] != "fast" || len(config.Tolerations) != 1 || config.Resources.Limits.Memory().String() != "1Gi" {
		t.Errorf("got %+v, want the configuration of the request", config)
	}

	for _, test := range []struct {
		name, want string
		edit       func(*console.SubscriptionRequest)
	}{
		{"unknown field", `unknown field \"nodeSelectors\"`, func(r *console.SubscriptionRequest) {
			r.Name, r.Config = "wrong", map[string]any{"nodeSelectors": map[string]any{}}
		}},
		{"value that the API server refuses", "spec.config", func(r *console.SubscriptionRequest) {
			required := map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": nil}}
			r.Name, r.Config = "wrong", map[string]any{"affinity": map[string]any{"nodeAffinity": required}}
		}},
		{"again", "exists already", func(*console.SubscriptionRequest) {}},
		{"channel", "no channel", func(r *console.SubscriptionRequest) { r.Channel = "beta" }},
		{"version", "does not contain kettle.v9.0.0", func(r *console.SubscriptionRequest) { r.StartingCSV = "kettle.v9.0.0" }},
	} {
		wrong := request
		test.edit(&wrong)
		if got := b.send(b.newRequest(http.MethodPost, namespace+"/subscription-previews", wrong)); got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body.String(), test.want) {
			t.Errorf("%s: got %d %s, want the refusal of the command line", test.name, got.Code, got.Body)
		}
	}
}

// A whole Subscription keeps the fields that the request does not have. The API server checks it before anything is created.
func TestInstallWrittenSubscription(t *testing.T) {
	f := newKettle(t)
	b := f.signIn(f.newUser("subscriber", f.namespace, subscriberRules...))
	path := "/api/v1/namespaces/" + f.namespace
	newRequest := func(edit func(object, metadata, spec map[string]any)) console.SubscriptionRequest {
		metadata := map[string]any{"name": "pot", "namespace": f.namespace, "labels": map[string]any{"team": "teas"}, "annotations": map[string]any{"example.com/note": "mine"}}
		spec := map[string]any{
			"name": "kettle", "source": "home", "sourceNamespace": "olm", "channel": "stable", "startingCSV": "kettle.v1.1.0", "installPlanApproval": "Manual",
			"config": map[string]any{"nodeSelector": map[string]any{"disk": "fast"}, "env": []any{
				map[string]any{"name": "PROJECT_NUMBER", "value": "1"}, map[string]any{"name": "POOL_ID", "value": "2"}, map[string]any{"name": "PROVIDER_ID", "value": "3"},
			}},
		}
		object := map[string]any{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": metadata, "spec": spec}
		if edit != nil {
			edit(object, metadata, spec)
		}
		return console.SubscriptionRequest{Package: "kettle", Object: object}
	}

	for _, test := range []struct {
		name, want string
		edit       func(object, metadata, spec map[string]any)
	}{
		{"another kind", "must be a Subscription of operators.coreos.com/v1alpha1", func(object, _, _ map[string]any) { object["kind"] = "CatalogSource" }},
		{"another version", "must be a Subscription of operators.coreos.com/v1alpha1", func(object, _, _ map[string]any) { object["apiVersion"] = "apps.open-cluster-management.io/v1" }},
		{"no kind", "must be a Subscription of operators.coreos.com/v1alpha1", func(object, _, _ map[string]any) { delete(object, "kind") }},
		{"an unknown field", `unknown field \"spec.startingCsv\"`, func(_, _, spec map[string]any) { spec["startingCsv"] = "kettle.v1.1.0" }},
		{"a label that the API server refuses", "metadata.labels", func(_, metadata, spec map[string]any) {
			metadata["labels"] = map[string]any{"team": "no label"}
			delete(spec, "config")
		}},
		{"an unknown version", "does not contain kettle.v9.0.0", func(_, _, spec map[string]any) { spec["startingCSV"] = "kettle.v9.0.0" }},
		{"another catalog", "catalog olm/other does not contain it", func(_, _, spec map[string]any) { spec["source"] = "other" }},
	} {
		for _, operation := range []string{"/subscription-previews", "/subscriptions"} {
			got := b.send(b.newRequest(http.MethodPost, path+operation, newRequest(test.edit)))
			if got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body.String(), test.want) {
				t.Errorf("%s of %s: got %d %s, want 422 with %s", operation, test.name, got.Code, got.Body, test.want)
			}
		}
	}
	var groups operatorsv1.OperatorGroupList
	f.Must(f.List(t.Context(), &groups, client.InNamespace(f.namespace)))
	if len(groups.Items) > 0 {
		t.Errorf("got %d OperatorGroups, want none, because each request was refused", len(groups.Items))
	}

	reader := f.signIn(f.newUser("reader", f.namespace, subscriberRules[1], rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}))
	for _, operation := range []string{"/subscription-previews", "/subscriptions"} {
		if got := reader.send(reader.newRequest(http.MethodPost, path+operation, newRequest(nil))); got.Code != http.StatusForbidden {
			t.Errorf("%s of a user who may not create Subscriptions: got %d %s, want 403", operation, got.Code, got.Body)
		}
	}
	forged := b.newRequest(http.MethodPost, path+"/subscriptions", newRequest(nil))
	forged.Header.Set("X-CSRF-Token", "forged")
	if got := b.send(forged); got.Code != http.StatusForbidden {
		t.Errorf("a request without the CSRF token: got %d %s, want 403", got.Code, got.Body)
	}

	b.do(http.MethodPost, path+"/subscriptions", newRequest(nil), nil)
	sub := &v1alpha1.Subscription{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "pot"}, sub))
	if sub.Labels["team"] != "teas" || sub.Annotations["example.com/note"] != "mine" {
		t.Errorf("got the labels %v and annotations %v, want those of the object", sub.Labels, sub.Annotations)
	}
	spec := &sub.Spec
	if spec.CatalogSource != "home" || spec.CatalogSourceNamespace != "olm" || spec.Channel != "stable" || spec.StartingCSV != "kettle.v1.1.0" || spec.InstallPlanApproval != v1alpha1.ApprovalManual {
		t.Errorf("got %+v, want the fields of the object", spec)
	}
	if config := spec.Config; config == nil || config.NodeSelector["disk"] != "fast" || len(config.Env) != 4 || config.Env[3].Name != "AUDIENCE" {
		t.Errorf("got the configuration %+v, want that of the object with the variable AUDIENCE", config)
	}
}

// Cluster monitoring is offered for a recommended namespace that does not exist, and enabled only if it is requested.
func TestInstallWithClusterMonitoring(t *testing.T) {
	f := newKettle(t)
	recommended := f.NewNamespace("openshift-kettles-")
	p := &packagesv1.PackageManifest{}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "kettle"}, p))
	p.ObjectMeta = metav1.ObjectMeta{Namespace: recommended, Name: "kettle"}
	p.Status.Channels[0].CurrentCSVDesc.Annotations = map[string]string{
		"operatorframework.io/cluster-monitoring": "true", "operatorframework.io/suggested-namespace": recommended,
	}
	f.Must(f.Create(t.Context(), p))

	// The packages of a namespace that does not exist are served, too. Nothing deletes them with the namespace here.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: recommended}}
	f.Must(f.Delete(t.Context(), namespace))
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
	namespace.Spec.Finalizers = nil
	f.Must(f.SubResource("finalize").Update(t.Context(), namespace))

	rules := append(slices.Clone(subscriberRules), rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "create"}})
	user := f.signIn(f.newUser("subscriber", "", rules...))
	admin := f.signIn(f.newUser("admin", "", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}))
	path := "/api/v1/namespaces/" + recommended
	var offer subscription.Offer
	user.do(http.MethodGet, path+"/subscription-offers/kettle", nil, &offer)
	if got := offer.Details[0].ClusterMonitoring; got == nil || got.Default {
		t.Errorf("got %+v, want an offer that is not the default, because the catalog is not a default catalog", got)
	}

	request := console.SubscriptionRequest{Package: "kettle", CreateNamespace: true}
	listKinds := func(b *browser) string {
		t.Helper()
		var preview console.SubscriptionPreview
		b.do(http.MethodPost, path+"/subscription-previews", request, &preview)
		var kinds []string
		for _, object := range preview.Objects {
			kinds = append(kinds, object.Kind)
		}
		return strings.Join(kinds, " ")
	}
	if got, want := listKinds(user), "Namespace OperatorGroup Subscription"; got != want {
		t.Errorf("without monitoring: got %s, want %s", got, want)
	}
	request.ClusterMonitoring = true
	for _, operation := range []string{"/subscription-previews", "/subscriptions"} {
		got := user.send(user.newRequest(http.MethodPost, path+operation, request))
		if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "roles.rbac.authorization.k8s.io is forbidden") {
			t.Errorf("%s of a user who may not create roles: got %d %s, want 403", operation, got.Code, got.Body)
		}
	}
	if got, want := listKinds(admin), "Namespace Role RoleBinding OperatorGroup Subscription"; got != want {
		t.Errorf("with monitoring: got %s, want %s", got, want)
	}

	admin.do(http.MethodPost, path+"/subscriptions", request, nil)
	f.Must(f.Get(t.Context(), client.ObjectKey{Name: recommended}, namespace))
	if namespace.Labels["openshift.io/cluster-monitoring"] != "true" {
		t.Errorf("got the labels %v, want that of cluster monitoring", namespace.Labels)
	}
	f.Must(f.Get(t.Context(), client.ObjectKey{Namespace: recommended, Name: recommended + "-prometheus"}, &rbacv1.RoleBinding{}))

	request.Name = "another"
	got := admin.send(admin.newRequest(http.MethodPost, path+"/subscriptions", request))
	if got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body.String(), "kubectl label namespace "+recommended) {
		t.Errorf("an existing namespace: got %d %s, want 422 with advice", got.Code, got.Body)
	}
}

// createWaitingPlan creates a Subscription that waits for the approval of a plan with a role.
func (f *fixture) createWaitingPlan() *v1alpha1.InstallPlan {
	f.T.Helper()
	sub := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "kettle"},
		Spec:       v1alpha1.SubscriptionSpec{Package: "kettle", CatalogSource: "home", CatalogSourceNamespace: "olm", Channel: "stable", InstallPlanApproval: v1alpha1.ApprovalManual},
	}
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "kettle"}}
	plan := &v1alpha1.InstallPlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "install-a"},
		Spec:       v1alpha1.InstallPlanSpec{Approval: v1alpha1.ApprovalManual, ClusterServiceVersionNames: []string{"kettle.v1.1.0"}},
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "kettle"}, Data: map[string]string{"heat": "90", "other": "x"}}
	f.CreateAll(sub, group, plan, settings)
	step := func(kind, group, version, manifest string) *v1alpha1.Step {
		return &v1alpha1.Step{Resolving: "kettle.v1.1.0", Status: v1alpha1.StepStatusUnknown, Resource: v1alpha1.StepResource{Group: group, Version: version, Kind: kind, Name: "kettle", Manifest: manifest}}
	}
	plan.Status = v1alpha1.InstallPlanStatus{Phase: v1alpha1.InstallPlanPhaseRequiresApproval, CatalogSources: []string{}, Plan: []*v1alpha1.Step{
		step("Role", "rbac.authorization.k8s.io", "v1", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"kettle"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`),
		step("ConfigMap", "", "v1", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kettle"},"data":{"heat":"100"}}`),
		step("ConfigMap", "", "v1", `{"kind":"ConfigMap","name":"unpacked","namespace":"`+f.namespace+`"}`),
	}}
	f.Must(f.Status().Update(f.T.Context(), plan))
	sub.Status = v1alpha1.SubscriptionStatus{
		State: v1alpha1.SubscriptionStateUpgradePending, CurrentCSV: "kettle.v1.1.0", LastUpdated: metav1.Now(), InstallPlanRef: &corev1.ObjectReference{Namespace: f.namespace, Name: plan.Name},
	}
	f.Must(f.Status().Update(f.T.Context(), sub))
	return plan
}

// The page of an operator names the object that its author requires, until it exists.
func TestRequiredResource(t *testing.T) {
	const annotation = "operatorframework.io/initialization-resource"
	f := newKettle(t)
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.namespace, Name: "kettle.v1.0.0", Annotations: map[string]string{annotation: `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"a"}}`},
	}}
	csv.Spec.DisplayName, csv.Spec.InstallStrategy.StrategyName = "Kettle", "deployment"
	sub := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "kettle"}, Spec: v1alpha1.SubscriptionSpec{Package: "kettle", CatalogSource: "home", CatalogSourceNamespace: "olm"}}
	f.CreateAll(csv, sub)
	sub.Status.InstalledCSV, sub.Status.LastUpdated = csv.Name, metav1.Now()
	f.Must(f.Status().Update(t.Context(), sub))

	mayList := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"limitranges"}, Verbs: []string{"list"}}
	user := f.signIn(f.newUser("user", f.namespace, subscriberRules[0], mayList))
	read := func(b *browser) *console.RequiredResource {
		t.Helper()
		var source console.Source
		b.do(http.MethodGet, "/api/v1/namespaces/"+f.namespace+"/subscriptions/kettle/source", nil, &source)
		return source.Required
	}
	want := console.RequiredResource{Version: "v1", Plural: "limitranges", Kind: "LimitRange", Namespace: f.namespace}
	if got := read(user); got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := read(f.signIn(f.newUser("stranger", f.namespace, subscriberRules[0]))); got != nil {
		t.Errorf("a user who may not list the kind: got %+v, want nothing", got)
	}

	f.CreateAll(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "another-name"}})
	if got := read(user); got != nil {
		t.Errorf("got %+v, want nothing, because it exists", got)
	}

	for _, malformed := range []string{"{", `{"apiVersion":"none.example.com/v1","kind":"Unknown"}`} {
		csv.Annotations[annotation] = malformed
		f.Must(f.Update(t.Context(), csv))
		if got := read(user); got != nil {
			t.Errorf("%s: got %+v, want nothing", malformed, got)
		}
	}
}

// An approval shows the changes of the plan, and approves only the plan that was shown.
func TestApproveInstallPlan(t *testing.T) {
	f := newKettle(t)
	plan := f.createWaitingPlan()
	path := "/api/v1/namespaces/" + f.namespace + "/subscriptions/kettle/"
	b := f.signIn(f.newUser("subscriber", f.namespace, append([]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}, subscriberRules...)...))

	var preview console.ApprovalPreview
	b.do(http.MethodGet, path+"approval", nil, &preview)
	changes := map[string]string{}
	for _, c := range preview.Changes.Changes {
		changes[c.Kind] = string(c.Change) + c.Diff
	}
	if got := changes["ConfigMap"]; !strings.Contains(got, "changed") || !strings.Contains(got, `+  heat: "100"`) || strings.Contains(got, "other") {
		t.Errorf("got %q, want the change of the field that the plan sets", got)
	}
	if steps := preview.Plan.Steps; len(steps) != len(plan.Status.Plan) || steps[1] != (subscription.PlanStep{APIVersion: "v1", Kind: "ConfigMap", Name: "kettle", Status: v1alpha1.StepStatusUnknown}) {
		t.Errorf("got the steps %+v, want each object of the plan", steps)
	}
	if rights := preview.Changes.Rights; len(rights) != 1 || rights[0].Role != "Role kettle" {
		t.Errorf("got the rights %+v, want those of the role", rights)
	}
	if unread := strings.Join(preview.Changes.Unread, "\n"); !strings.Contains(unread, "unpacked") || !strings.Contains(unread, "Role kettle") {
		t.Errorf("got %q, want the bundle that is missing, and the role that the user may not read", unread)
	}

	reader := f.signIn(f.newUser("reader", f.namespace, rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com", "packages.operators.coreos.com"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}))
	seen := map[string]any{"plan": plan.Name, "resourceVersion": preview.Plan.ResourceVersion}
	if got := reader.send(reader.newRequest(http.MethodPost, path+"approvals", seen)); got.Code != http.StatusForbidden {
		t.Errorf("a user who may not patch InstallPlans: got %d %s, want 403", got.Code, got.Body)
	}
	if got := b.send(b.newRequest(http.MethodPost, path+"approvals", map[string]any{"plan": plan.Name, "resourceVersion": "1"})); got.Code != http.StatusConflict {
		t.Errorf("a plan that has changed: got %d %s, want 409", got.Code, got.Body)
	}
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(plan), plan))
	if plan.Spec.Approved {
		t.Fatal("a refused approval approved the plan")
	}

	b.do(http.MethodPost, path+"approvals", seen, nil)
	f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(plan), plan))
	if !plan.Spec.Approved {
		t.Error("the plan is not approved")
	}
}

func TestChangeAndUninstallSubscription(t *testing.T) {
	f := newKettle(t)
	f.createWaitingPlan()
	path := "/api/v1/namespaces/" + f.namespace + "/subscriptions/kettle"
	b := f.signIn(f.newUser("subscriber", f.namespace, subscriberRules...))
	sub := &v1alpha1.Subscription{}
	key := client.ObjectKey{Namespace: f.namespace, Name: "kettle"}
	f.Must(f.Get(t.Context(), key, sub))

	change := map[string]any{"generation": sub.Generation, "approval": "Automatic"}
	b.do(http.MethodPost, path+"/upgrades", change, nil)
	f.Must(f.Get(t.Context(), key, sub))
	if sub.Spec.InstallPlanApproval != v1alpha1.ApprovalAutomatic || sub.Spec.Channel != "stable" {
		t.Errorf("got %+v, want only the approval changed", sub.Spec)
	}
	if got := b.send(b.newRequest(http.MethodPost, path+"/upgrades", change)); got.Code != http.StatusConflict {
		t.Errorf("a change of an earlier generation: got %d %s, want 409", got.Code, got.Body)
	}

	f.changeKettleConfig(b)

	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "kettle.v1.1.0", Annotations: map[string]string{
		"operator.openshift.io/uninstall-message": "Empty the kettle.", "console.openshift.io/disable-operand-delete": "true",
	}}}
	csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "subscriptions.operators.coreos.com", Kind: "Subscription", Version: "v1alpha1"}}
	f.CreateAll(csv)
	var removal console.SubscriptionRemoval
	b.do(http.MethodGet, path+"/removal", nil, &removal)
	if removal.CSV != csv.Name || removal.Message != "Empty the kettle." || !removal.HidesOperands || len(removal.CRDs) != 1 || removal.CRDs[0].Unknown == "" {
		t.Errorf("got %+v, want the operator, the requests of its author, and a CRD that the user may not read", removal)
	}
	for _, body := range []map[string]any{{"deleteCRDs": true, "deleteCustomResources": true}, {"deleteCRDs": true, "confirmation": "kettle"}} {
		if got := b.send(b.newRequest(http.MethodPost, path+"/uninstalls", body)); got.Code != http.StatusUnprocessableEntity {
			t.Errorf("%v: got %d %s, want 422, because data would be lost", body, got.Code, got.Body)
		}
	}
	f.Must(f.Get(t.Context(), key, sub))

	b.do(http.MethodPost, path+"/uninstalls", map[string]any{}, nil)
	if err := client.IgnoreNotFound(f.Get(t.Context(), key, sub)); err != nil || sub.DeletionTimestamp == nil && f.Get(t.Context(), key, sub) == nil {
		t.Errorf("the Subscription still exists: %v", err)
	}
}

// changeKettleConfig changes the configuration of the operator's pods, and removes it. Other fields of the Subscription stay.
func (f *fixture) changeKettleConfig(b *browser) {
	f.T.Helper()
	path := "/api/v1/namespaces/" + f.namespace + "/subscriptions/kettle/upgrades"
	sub := &v1alpha1.Subscription{}
	key := client.ObjectKey{Namespace: f.namespace, Name: "kettle"}
	proxy := map[string]any{"env": []any{map[string]any{"name": "HTTPS_PROXY", "value": "proxy.example.com"}}}

	f.Must(f.Get(f.T.Context(), key, sub))
	generation := sub.Generation
	for _, config := range []map[string]any{
		{"environment": []any{}},
		{"tolerations": []any{map[string]any{"tolerationSeconds": "soon"}}},
	} {
		got := b.send(b.newRequest(http.MethodPost, path, map[string]any{"generation": generation, "config": config}))
		if got.Code != http.StatusUnprocessableEntity {
			f.T.Errorf("%v: got %d %s, want 422", config, got.Code, got.Body)
		}
	}

	b.do(http.MethodPost, path, map[string]any{"generation": generation, "config": proxy}, nil)
	f.Must(f.Get(f.T.Context(), key, sub))
	if c := sub.Spec.Config; c == nil || len(c.Env) != 1 || c.Env[0].Value != "proxy.example.com" || sub.Spec.Channel != "stable" {
		f.T.Errorf("got %+v, want the configuration and the same channel", sub.Spec)
	}
	b.do(http.MethodPost, path, map[string]any{"generation": sub.Generation, "config": map[string]any{}}, nil)
	f.Must(f.Get(f.T.Context(), key, sub))
	if sub.Spec.Config != nil {
		f.T.Errorf("got the configuration %+v, want none", sub.Spec.Config)
	}
}

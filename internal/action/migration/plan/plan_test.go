package plan

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// loadSample returns the bundle of the sample operator.
func loadSample(t *testing.T) *bundle.Bundle { return loadSampleVersion(t, "1.0.0") }

func loadSampleVersion(t *testing.T, version string) *bundle.Bundle {
	t.Helper()
	b, err := bundle.Load(os.DirFS("../../../../examples/bundles/hello-operator/" + version))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// liveDeployment returns the Deployment of the sample operator on the cluster.
func (f *Facts) liveDeployment() *unstructured.Unstructured {
	for key, live := range f.Live {
		if key.Kind == kindDeployment {
			return live
		}
	}
	return nil
}

func TestFindings(t *testing.T) {
	all, one := []string{""}, []string{"other"}
	for name, test := range map[string]struct {
		targets []string
		edit    func(*Facts)
		options Options
		// want are the blockers and the questions.
		want []string
	}{
		"all namespaces":    {targets: all},
		"another namespace": {targets: one},
		"own namespace":     {targets: []string{namespace}},
		"not installed":     {all, func(f *Facts) { f.Subscription.Status.InstalledCSV = "" }, Options{}, []string{"Installed"}},
		"being upgraded":    {all, func(f *Facts) { f.Subscription.Status.State = v1alpha1.SubscriptionStateUpgradeAvailable }, Options{}, []string{"SteadyState"}},
		"failed":            {all, func(f *Facts) { f.CSV.Status.Phase = v1alpha1.CSVPhaseFailed }, Options{}, []string{"SteadyState"}},
		"a dependency": {all, func(f *Facts) {
			f.Subscription.Annotations = map[string]string{v1alpha1.AnnotationGeneratedBy: "install-x"}
		}, Options{}, []string{"GeneratedSubscription"}},
		"two Subscriptions": {all, func(f *Facts) {
			f.Subscriptions = []v1alpha1.Subscription{*f.Subscription, {ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "y"}, Spec: f.Subscription.Spec}}
		}, Options{}, []string{"OneSubscription"}},
		"two Subscriptions for one CSV": {all, func(f *Facts) {
			other := f.Subscription.DeepCopy()
			other.Name, other.Spec.Package = "other", "other"
			f.Subscriptions = []v1alpha1.Subscription{*f.Subscription, *other}
		}, Options{}, []string{"OneSubscription"}},
		"an InstallPlan that runs": {all, func(f *Facts) { f.addInstallPlan(v1alpha1.InstallPlanPhaseInstalling) }, Options{}, []string{"InstallPlans"}},
		"a new InstallPlan":        {all, func(f *Facts) { f.addInstallPlan(v1alpha1.InstallPlanPhaseNone) }, Options{Acknowledged: []Acknowledgement{AcknowledgeNotSteady}}, nil},
		"a new InstallPlan that is approved": {all, func(f *Facts) {
			f.addInstallPlan(v1alpha1.InstallPlanPhaseNone)
			f.InstallPlans[0].Spec.Approved = true
		}, Options{Acknowledged: []Acknowledgement{AcknowledgeNotSteady}}, []string{"InstallPlans"}},
		"an InstallPlan to approve": {all, func(f *Facts) { f.addInstallPlan(v1alpha1.InstallPlanPhaseRequiresApproval) }, Options{}, []string{"InstallPlans"}},
		"a complete InstallPlan":    {all, func(f *Facts) { f.addInstallPlan(v1alpha1.InstallPlanPhaseComplete) }, Options{}, nil},
		"no OperatorGroup":          {all, func(f *Facts) { f.OperatorGroups = nil }, Options{}, []string{"OperatorGroup"}},
		"two OperatorGroups":        {all, func(f *Facts) { f.OperatorGroups = append(f.OperatorGroups, operatorsv1.OperatorGroup{}) }, Options{}, []string{"OperatorGroup"}},
		"no target":                 {all, func(f *Facts) { f.OperatorGroups[0].Status.Namespaces = nil }, Options{}, []string{"OperatorGroup"}},
		"two targets":               {[]string{"a", "b"}, nil, Options{}, []string{"InstallMode"}},
		"two targets, accepted":     {[]string{"a", "b"}, nil, Options{Acknowledged: []Acknowledgement{AcknowledgeScopeChange, AcknowledgeRestart}}, nil},
		"two targets, impossible": {[]string{"a", "b"}, func(f *Facts) {
			f.CSV.Spec.InstallModes = []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeMultiNamespace, Supported: true}}
		}, Options{Acknowledged: []Acknowledgement{AcknowledgeScopeChange, AcknowledgeRestart}}, []string{"InstallMode"}},
		"a selector": {all, func(f *Facts) {
			f.OperatorGroups[0].Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, Options{}, []string{"InstallMode"}},
		"a service account of the group":   {all, func(f *Facts) { f.OperatorGroups[0].Spec.ServiceAccountName = "x" }, Options{}, []string{"ServiceAccount"}},
		"a missing service account":        {all, func(f *Facts) { f.Policy = &rbac.Policy{} }, Options{ServiceAccount: "x"}, []string{"ServiceAccount"}},
		"a service account without rights": {all, func(f *Facts) { f.Policy, f.HasServiceAccount = &rbac.Policy{}, true }, Options{ServiceAccount: "x"}, []string{"ServiceAccount"}},
		"an APIService": {all, func(f *Facts) {
			f.CSV.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{Group: "g", Version: "v1"}}
		}, Options{}, []string{"APIServices"}},
		"a required package": {all, func(f *Facts) { f.require(fbc.PropertyPackageRequired, `{"packageName":"etcd","versionRange":">1"}`) }, Options{}, []string{"Dependencies"}},
		"a required package of an extension": {all, func(f *Facts) {
			f.require(fbc.PropertyPackageRequired, `{"packageName":"etcd","versionRange":">1"}`)
			f.addRevision("etcd", map[string]string{olmv1.AnnotationPackageName: "etcd"})
		}, Options{}, nil},
		"a required API": {all, func(f *Facts) { f.require(fbc.PropertyGVKRequired, `{"group":"g","version":"v1","kind":"K"}`) }, Options{}, []string{"Dependencies"}},
		"a required API of an extension": {all, func(f *Facts) {
			f.require(fbc.PropertyGVKRequired, `{"group":"g","version":"v1","kind":"K"}`)
			f.addRevision("g", map[string]string{olmv1.AnnotationProvides: `[{"type":"olm.gvk","value":{"group":"g","version":"v1","kind":"K"}}]`})
		}, Options{}, nil},
		"a constraint": {all, func(f *Facts) { f.require(fbc.PropertyConstraint, `{}`) }, Options{}, []string{"Dependencies"}},
		"a shared CRD": {all, func(f *Facts) {
			other := f.CSV.DeepCopy()
			other.UID, other.Namespace = "other", "other"
			f.CSVs = append(f.CSVs, *other)
		}, Options{}, []string{"SharedCRDs"}},
		"not upgradeable": {all, func(f *Facts) {
			f.Condition = &operatorsv2.OperatorCondition{Spec: operatorsv2.OperatorConditionSpec{Conditions: []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: metav1.ConditionFalse}}}}
		}, Options{}, []string{"OperatorCondition"}},
		"overrides": {all, func(f *Facts) {
			f.Condition = &operatorsv2.OperatorCondition{Spec: operatorsv2.OperatorConditionSpec{Overrides: []operatorsv1.ConditionOverride{{}}}}
		}, Options{}, []string{"OperatorCondition"}},
		"rights to Subscriptions": {all, func(f *Facts) {
			rule := rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"subscriptions"}}
			for _, csv := range []*v1alpha1.ClusterServiceVersion{f.CSV, &f.Bundle.CSV} {
				permissions := csv.Spec.InstallStrategy.StrategySpec.Permissions
				permissions[0].Rules = append(permissions[0].Rules, rule)
			}
		}, Options{}, []string{"ClassicAPIAccess"}},
		"the name is taken": {all, func(f *Facts) {
			f.Extensions = []olmv1.ClusterExtension{{ObjectMeta: metav1.ObjectMeta{Name: f.Subscription.Name}}}
		}, Options{}, []string{"Name"}},
		"another name": {all, func(f *Facts) {
			f.Extensions = []olmv1.ClusterExtension{{ObjectMeta: metav1.ObjectMeta{Name: f.Subscription.Name}}}
		}, Options{Extension: "other"}, nil},
		"a revision is left":   {all, func(f *Facts) { f.addRevision(f.Subscription.Name, nil) }, Options{}, []string{"Name"}},
		"no catalog":           {all, func(f *Facts) { f.Offers, f.Bundle = nil, nil }, Options{}, []string{"Catalog"}},
		"an unreadable bundle": {all, func(f *Facts) { f.Bundle, f.BundleError = nil, errors.New("no route") }, Options{}, []string{"Bundle"}},
		"a channel without it": {all, func(f *Facts) { f.Subscription.Spec.Channel = "alpha" }, Options{}, []string{"Channel"}},
		"no channel":           {all, func(f *Facts) { f.Subscription.Spec.Channel = "" }, Options{}, nil},
		"another bundle":       {all, func(f *Facts) { f.CSV.Spec.InstallStrategy.StrategySpec.Permissions = nil }, Options{}, []string{"SameBundle"}},
		"a controlled object":  {all, func(f *Facts) { f.setOwner(true) }, Options{}, []string{"ForeignObjects"}},
		"an object of a user":  {all, func(f *Facts) { f.setOwner(false) }, Options{}, []string{"ForeignObjects"}},
		"an object of an InstallPlan": {all, func(f *Facts) {
			f.setOwner(false)
			f.addStep(f.CSV.Name, v1alpha1.StepStatusCreated)
		}, Options{}, nil},
		"an object of an InstallPlan that did not install it": {all, func(f *Facts) {
			f.setOwner(false)
			f.addStep(f.CSV.Name, v1alpha1.StepStatusUnknown)
		}, Options{}, []string{"ForeignObjects"}},
		"an object of an InstallPlan for another operator": {all, func(f *Facts) {
			f.setOwner(false)
			f.addStep("other.v1.0.0", v1alpha1.StepStatusCreated)
		}, Options{}, []string{"ForeignObjects"}},
		"a CRD of an extension": {all, func(f *Facts) {
			controlled := true
			f.liveCRD().SetOwnerReferences([]metav1.OwnerReference{{Kind: olmv1.ClusterObjectSetKind, Name: "other-1", UID: "x", Controller: &controlled}})
		}, Options{}, []string{"ForeignObjects"}},
		"a CRD of a user": {all, func(f *Facts) { f.liveCRD().SetOwnerReferences(nil) }, Options{}, nil},
		"a newer CRD": {all, func(f *Facts) {
			_ = unstructured.SetNestedStringSlice(f.liveCRD().Object, []string{"v1alpha1", "v1"}, "status", "storedVersions")
			versions, _, _ := unstructured.NestedSlice(f.liveCRD().Object, "spec", "versions")
			newer := runtime.DeepCopyJSON(versions[0].(map[string]any))
			newer["name"], newer["storage"] = "v1", false
			_ = unstructured.SetNestedSlice(f.liveCRD().Object, append(versions, newer), "spec", "versions")
		}, Options{}, []string{"CRDSafety"}},
		"another pod template":    {all, func(f *Facts) { f.setTemplate("image", "x") }, Options{}, []string{"PodTemplate"}},
		"an addition in the pods": {all, func(f *Facts) { f.setTemplate("workingDir", "x") }, Options{}, nil},
		"an invalid configuration": {all, func(f *Facts) {
			f.Subscription.Spec.Config = &v1alpha1.SubscriptionConfig{VolumeMounts: []corev1.VolumeMount{{Name: "missing", MountPath: "/x"}}}
		}, Options{}, []string{"Configuration"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFacts(t, loadSample(t), test.targets...)
			if test.edit != nil {
				test.edit(f)
			}
			p := New(f, test.options)
			var got []string
			for _, finding := range p.Findings {
				if finding.Blocks() {
					got = append(got, finding.Check)
					if finding.Remedy == "" || finding.Object == "" || finding.Message == "" {
						t.Errorf("got %+v, want an object, a message and a remedy", finding)
					}
				}
			}
			if len(test.targets) > 1 {
				got = slices.DeleteFunc(got, func(check string) bool { return check == "PodTemplate" })
			}
			expectEqual(t, "blocking findings", slices.Compact(got), test.want)
			if p.Allowed() != (len(test.want) == 0) {
				t.Errorf("got Allowed %v, want %v", p.Allowed(), len(test.want) == 0)
			}
		})
	}
}

func (f *Facts) addInstallPlan(phase v1alpha1.InstallPlanPhase) {
	f.InstallPlans = []v1alpha1.InstallPlan{{
		ObjectMeta: metav1.ObjectMeta{Name: "install-x", OwnerReferences: []metav1.OwnerReference{{UID: f.Subscription.UID}}},
		Status:     v1alpha1.InstallPlanStatus{Phase: phase},
	}}
}

// addStep adds an InstallPlan with a step for the live Deployment.
func (f *Facts) addStep(resolving string, status v1alpha1.StepStatus) {
	f.addInstallPlan(v1alpha1.InstallPlanPhaseComplete)
	live := f.liveDeployment()
	f.InstallPlans[0].Namespace = live.GetNamespace()
	f.InstallPlans[0].Status.Plan = []*v1alpha1.Step{{
		Resolving: resolving, Status: status,
		Resource: v1alpha1.StepResource{Group: "apps", Version: "v1", Kind: live.GetKind(), Name: live.GetName()},
	}}
}

func (f *Facts) require(propertyType, value string) {
	f.Bundle.Properties = append(f.Bundle.Properties, fbc.Property{Type: propertyType, Value: []byte(value)})
}

func (f *Facts) addRevision(extension string, annotations map[string]string) {
	f.Revisions = append(f.Revisions, olmv1.ClusterObjectSet{
		ObjectMeta: metav1.ObjectMeta{Name: extension + "-1", Labels: map[string]string{olmv1.LabelOwnerName: extension}, Annotations: annotations},
		Spec:       olmv1.ClusterObjectSetSpec{LifecycleState: olmv1.LifecycleStateActive},
	})
}

func (f *Facts) setOwner(controlled bool) {
	f.liveDeployment().SetOwnerReferences(nil)
	f.liveDeployment().SetLabels(nil)
	if controlled {
		f.liveDeployment().SetOwnerReferences([]metav1.OwnerReference{{Kind: "Other", Name: "x", UID: "x", Controller: &controlled}})
	}
}

// liveCRD returns the CRD of the sample operator on the cluster.
func (f *Facts) liveCRD() *unstructured.Unstructured {
	for key, live := range f.Live {
		if key.IsCRD() {
			return live
		}
	}
	return nil
}

// TestWarnings checks the warnings about a migration that nothing prevents.
func TestWarnings(t *testing.T) {
	for name, test := range map[string]struct {
		edit  func(*Facts)
		check string
		// want are parts of the object, of the message and of the remedy.
		want []string
	}{
		"the extension owns the CRDs": {
			func(*Facts) {}, "CRDOwnership",
			[]string{"ClusterExtension hello-operator", "deletes greetings.hello.example.com and all their objects", "--keep-crds"},
		},
		"proxy variables": {
			func(f *Facts) {
				f.addVariable("HTTPS_PROXY", "http://proxy")
			},
			"Proxy", []string{"Deployment fruit/hello-operator", "OLM v1 does not set HTTPS_PROXY", "deploymentConfig.env"},
		},
		"bindings to the roles of the OperatorGroup": {
			func(f *Facts) {
				f.GroupBindings = []GroupBinding{{Kind: "RoleBinding", Namespace: "fruit", Name: "viewers", Role: "olm.og.group.view-hash"}}
			},
			"GroupBindings", []string{"RoleBinding fruit/viewers", "olm.og.group.view-hash, which is deleted with the OperatorGroup", "-view"},
		},
		"bindings that the user may not read": {
			func(f *Facts) { f.GroupBindingsErr = errors.New("rolebindings is forbidden") },
			"GroupBindings", []string{"bindings to the ClusterRoles of the OperatorGroup", "rolebindings is forbidden", "-view"},
		},
		"no channel": {
			func(f *Facts) { f.Subscription.Spec.Channel = "" }, "Channel", []string{"Subscription fruit/hello-operator", "uses the default channel stable", ""},
		},
		"no channel, and no default": {
			func(f *Facts) { f.Subscription.Spec.Channel, f.Offers[0].DefaultChannel = "", "" }, "Channel",
			[]string{"Subscription fruit/hello-operator", "all channels are used", "spec.source.catalog.channels"},
		},
		"a dependent": {
			func(f *Facts) {
				other := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "guest", UID: "guest"}}
				other.Spec.CustomResourceDefinitions.Required = []v1alpha1.CRDDescription{{Name: "greetings.hello.example.com"}}
				f.CSVs = append(f.CSVs, other)
			},
			"Dependents", []string{"ClusterServiceVersion other/guest", "requires greetings.hello.example.com", "migrate it next"},
		},
		"a dependent by the properties of its bundle": {
			func(f *Facts) {
				other := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "guest", UID: "guest"}}
				other.Annotations = map[string]string{csvinfo.AnnotationProperties: `{"properties":[{"type":"olm.package.required","value":{"packageName":"hello-operator","versionRange":">1"}}]}`}
				f.CSVs = append(f.CSVs, other)
			},
			"Dependents", []string{"ClusterServiceVersion other/guest", "requires package hello-operator >1", "migrate it next"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFacts(t, loadSample(t), "")
			test.edit(f)
			p := New(f, Options{})
			if !p.Allowed() {
				t.Errorf("got the findings %+v, want none that prevents the migration", p.Findings)
			}
			at := slices.IndexFunc(p.Findings, func(finding Finding) bool { return finding.Check == test.check })
			if at < 0 {
				t.Fatalf("got the findings %+v, want %s", p.Findings, test.check)
			}
			for i, got := range []string{p.Findings[at].Object, p.Findings[at].Message, p.Findings[at].Remedy} {
				if !strings.Contains(got, test.want[i]) {
					t.Errorf("got %q, want %q in it", got, test.want[i])
				}
			}
		})
	}
}

// TestServingSecrets checks that an operator with webhooks keeps its serving Secrets if it can, and
// that its pods restart otherwise.
func TestServingSecrets(t *testing.T) {
	f := newFacts(t, loadSampleVersion(t, "1.2.0"), "")
	p := New(f, Options{})
	if !p.Allowed() {
		t.Errorf("got the findings %+v, want none that prevents the migration", p.Findings)
	}
	expectEqual(t, "annotation", p.Extension.Annotations[olmv1.AnnotationServingSecrets], olmv1.ServingSecretsClassic)

	f.Issuer = render.IssuerBuiltIn
	p = New(f, Options{})
	expectEqual(t, "questions", checksOf(p.Findings, SeverityAcknowledge), []string{"PodTemplate"})
	if warnings := checksOf(p.Findings, SeverityWarning); !slices.Contains(warnings, "Webhooks") {
		t.Errorf("got the warnings %q, want one about Webhooks", warnings)
	}
	expectEqual(t, "annotation with new certificates", p.Extension.Annotations[olmv1.AnnotationServingSecrets], "")
}

// TestChannel checks which channel an extension has if the Subscription names none.
func TestChannel(t *testing.T) {
	f := newFacts(t, loadSample(t), "")
	f.Subscription.Spec.Channel = ""
	expectEqual(t, "channels", New(f, Options{}).Extension.Spec.Source.Catalog.Channels, []string{"stable"})
	f.Offers[0].DefaultChannel = ""
	expectEqual(t, "channels without a default", New(f, Options{}).Extension.Spec.Source.Catalog.Channels, []string(nil))
}

// setTemplate sets a field of the first container of the live Deployment.
func (f *Facts) setTemplate(field, value string) {
	live := f.liveDeployment()
	containers, _, _ := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "containers")
	containers[0].(map[string]any)[field] = value
	_ = unstructured.SetNestedSlice(live.Object, containers, "spec", "template", "spec", "containers")
}

// addVariable adds an environment variable to the first container of the live Deployment.
func (f *Facts) addVariable(name, value string) {
	live := f.liveDeployment()
	containers, _, _ := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "containers")
	container := containers[0].(map[string]any)
	variables, _ := container["env"].([]any)
	container["env"] = append(variables, map[string]any{"name": name, "value": value})
	_ = unstructured.SetNestedSlice(live.Object, containers, "spec", "template", "spec", "containers")
}

func TestExtension(t *testing.T) {
	f := newFacts(t, loadSample(t), "other")
	f.Subscription.Spec.Config = &v1alpha1.SubscriptionConfig{
		Selector: &metav1.LabelSelector{}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
	}
	p := New(f, Options{Extension: "greeter", ServiceAccount: "installer"})
	ext := p.Extension
	if ext == nil {
		t.Fatalf("got no extension, the findings are %+v", p.Findings)
	}

	expectEqual(t, "name", ext.Name, "greeter")
	expectEqual(t, "origin", ext.Annotations[AnnotationMigratedFrom], "fruit/hello-operator")
	expectEqual(t, "namespace", ext.Spec.Namespace, namespace)
	expectEqual(t, "service account", ext.Spec.ServiceAccount.Name, "installer")
	expectEqual(t, "catalog", ext.Spec.Source.Catalog, &olmv1.CatalogFilter{
		PackageName: "hello-operator", Version: "1.0.0", Channels: []string{"stable"},
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{olmv1.LabelMetadataName: "catalog"}},
	})
	expectEqual(t, "config", string(ext.Spec.Config.Inline.Raw), `{"watchNamespace":"other","deploymentConfig":{"env":[{"name":"A","value":"b"}]}}`)
}

func TestObjects(t *testing.T) {
	f := newFacts(t, loadSample(t), "")
	f.CopiedCSVs = []string{"other/hello-operator.v1.0.0"}
	for _, owned := range []struct{ apiVersion, kind, name string }{
		{"v1", "Secret", "serving-cert"}, {"rbac.authorization.k8s.io/v1", "ClusterRole", "hello-operator.v1.0.0-x"},
	} {
		var u unstructured.Unstructured
		u.SetAPIVersion(owned.apiVersion)
		u.SetKind(owned.kind)
		u.SetName(owned.name)
		f.Owned = append(f.Owned, u)
	}

	var got []string
	for _, o := range New(f, Options{}).Objects {
		got = append(got, fmt.Sprintf("%s %s %s", o.Action, o.Kind, o.Name))
	}
	expectEqual(t, "objects", slices.DeleteFunc(got, func(text string) bool { return len(text) > 60 }), []string{
		"adopt CustomResourceDefinition greetings.hello.example.com", "adopt Deployment hello-operator", "adopt Service hello-operator",
		"adopt ServiceAccount hello-operator", "create ClusterExtension hello-operator",
		"keep OperatorGroup group", "keep Secret serving-cert",
		"remove ClusterRole hello-operator.v1.0.0-x", "remove ClusterServiceVersion hello-operator.v1.0.0",
		"remove ClusterServiceVersion hello-operator.v1.0.0", "remove Subscription hello-operator",
	})
}

func TestTemplateChanges(t *testing.T) {
	newDeployment := func(template string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"template":` + template + `}}`)); err != nil {
			t.Fatal(err)
		}
		return u
	}
	for name, test := range map[string]struct {
		wanted, live string
		want         []string
	}{
		"equal quantities": {
			`{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1000m"}}}]}}`,
			`{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1"}}}]}}`, nil,
		},
		"additions": {
			`{"metadata":{"annotations":{"a":"b"}},"spec":{"containers":[{"name":"a","env":[{"name":"A","value":"b"}]}]}}`,
			`{"metadata":{"annotations":{"a":"b","c":"d"}},"spec":{"dnsPolicy":"Default","containers":[{"name":"a","env":[{"name":"A","value":"b"},{"name":"OPERATOR_CONDITION_NAME","value":"x"}]}]}}`, nil,
		},
		"another value": {
			`{"spec":{"containers":[{"name":"a","env":[{"name":"A","value":"b"}]}]}}`,
			`{"spec":{"containers":[{"name":"a","env":[{"name":"A","value":"c"}]}]}}`, []string{"spec.containers[a].env[A].value"},
		},
		"a missing item": {
			`{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`, []string{"spec.containers[b]"},
		},
		"another order": {
			`{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`, `{"spec":{"containers":[{"name":"b"},{"name":"a"}]}}`, []string{"spec.containers"},
		},
		"another list": {
			`{"spec":{"containers":[{"name":"a","args":["x"]}]}}`, `{"spec":{"containers":[{"name":"a","args":["x","y"]}]}}`, []string{"spec.containers[a].args"},
		},
		"a default": {
			`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80}]}]}}`,
			`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"protocol":"TCP"}]}]}}`, nil,
		},
		"a new annotation": {`{"metadata":{"annotations":{"a":"b"}},"spec":{"containers":[]}}`, `{"spec":{"containers":[]}}`, []string{"metadata.annotations"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := TemplateChanges(newDeployment(test.wanted), newDeployment(test.live))
			if err != nil {
				t.Fatal(err)
			}
			expectEqual(t, "changes", got, test.want)
		})
	}
}

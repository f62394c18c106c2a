package action

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/config"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// The golden files contain the manifests of an installation without the CRDs, whose files
// are generated and long.
func TestManifests(t *testing.T) {
	cases := map[string]Installation{
		"default":                  {},
		"ignored-service-accounts": {IgnoreServiceAccount: true},
		"everything": {
			Namespace: "elsewhere", Image: "registry.example.com/mainstay:v1", RequireServiceAccount: true,
			FeatureGates: []string{"DeploymentConfig=true", "PreflightPermissions=false"}, PullSecret: "registries/pull",
			RegistriesConf: []byte("unqualified-search-registries = []\n"), SignaturePolicy: []byte("{}\n"),
			PullCAs: map[string][]byte{"b.pem": []byte("B\n"), "a.crt": []byte("A\n")},
		},
	}

	for name, installation := range cases {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			for _, object := range loadManifests(t, installation) {
				if object.GetKind() == "CustomResourceDefinition" {
					continue
				}

				text, err := yaml.Marshal(object.Object)
				if err != nil {
					t.Fatal(err)
				}

				b.WriteString("---\n")
				b.Write(text)
			}
			golden.Check(t, "install/"+name+".yaml", b.Bytes())
		})
	}
}

// TestClassicManifests checks the image and the order of OLM Classic's objects.
func TestClassicManifests(t *testing.T) {
	objects := loadManifests(t, Installation{Classic: true, DefaultCatalogs: true, Image: "registry.example.com/mainstay:v1"})
	text, err := yaml.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(manifestImage)) {
		t.Errorf("the manifests contain %s, want only the image of the installation", manifestImage)
	}
	for _, want := range []string{"--opmImage=registry.example.com/mainstay:v1", "image: quay.io/operatorhubio/catalog:latest"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the manifests do not contain %s", want)
		}
	}

	served := map[string]bool{}
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
			served[kind] = true
		}
		if object.GroupVersionKind().Group == "operators.coreos.com" && !served[object.GetKind()] {
			t.Errorf("%s comes before its CRD", DescribeKindAndName(object))
		}
	}

	if _, err := (&Installation{DefaultCatalogs: true}).Manifests(); err == nil || !strings.Contains(err.Error(), "require OLM Classic") {
		t.Errorf("default catalogs alone: got error %v, want one with advice", err)
	}
}

// TestClassicPullConfiguration checks that catalog-operator pulls images with the configuration of the installation.
func TestClassicPullConfiguration(t *testing.T) {
	objects := loadManifests(t, Installation{
		Classic: true, PullSecret: "registries/pull", RegistriesConf: []byte("mirrors"), SignaturePolicy: []byte("{}"), PullCAs: map[string][]byte{"own.crt": []byte("ca")},
	})
	deployments := decodeObjectsOfKind[appsv1.Deployment](t, objects, "Deployment")
	container := deployments["catalog-operator"].Spec.Template.Spec.Containers[0]
	for _, want := range []string{
		"--pull-secret=registries/pull", "--registries-conf=/etc/mainstay/registries.conf", "--signature-policy=/etc/mainstay/policy.json", "--pull-cas-dir=/etc/mainstay/cas",
	} {
		if !slices.Contains(container.Args, want) {
			t.Errorf("got the arguments %q of catalog-operator, want %s among them", container.Args, want)
		}
	}
	if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/mainstay" }) {
		t.Errorf("got the mounts %v of catalog-operator, want the files of the installation", container.VolumeMounts)
	}
	if args := deployments["olm-operator"].Spec.Template.Spec.Containers[0].Args; slices.Contains(args, "--pull-secret=registries/pull") {
		t.Errorf("got the arguments %q of olm-operator, want none for pulling images", args)
	}

	namespaces := map[string]int{}
	for i, object := range objects {
		switch {
		case object.GetKind() == "Namespace":
			namespaces[object.GetName()] = i
		case object.GetKind() == "ConfigMap" && object.GetName() == filesConfigMap:
			if at, ok := namespaces[object.GetNamespace()]; !ok || at > i {
				t.Errorf("the ConfigMap with the files comes before its namespace %s", object.GetNamespace())
			}
			delete(namespaces, object.GetNamespace())
		}
	}
	if _, missing := namespaces["olm"]; missing {
		t.Error("the namespace olm has no ConfigMap with the files")
	}
}

func loadManifests(t *testing.T, installation Installation) []*unstructured.Unstructured {
	t.Helper()
	objects, err := installation.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// decodeObjectsOfKind decodes the objects of a kind. It rejects unknown fields.
func decodeObjectsOfKind[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) map[string]*T {
	t.Helper()
	found := map[string]*T{}
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		value := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, value, true); err != nil {
			t.Fatalf("%s %s: %v", kind, object.GetName(), err)
		}
		found[object.GetName()] = value
	}

	if len(found) == 0 {
		t.Fatalf("got no %s", kind)
	}

	return found
}

// Scripts and test suites rely on these names and ports. A hardened cluster requires these
// security settings.
func TestDeployments(t *testing.T) {
	objects := loadManifests(t, Installation{})
	services := decodeObjectsOfKind[corev1.Service](t, objects, "Service")
	deployments := decodeObjectsOfKind[appsv1.Deployment](t, objects, "Deployment")
	want := map[string]struct {
		label   string
		service string
		ports   map[int32]int32
	}{
		"catalogd-controller-manager":            {"catalogd", "catalogd-service", map[int32]int32{443: 8443, 7443: 7443}},
		"operator-controller-controller-manager": {"operator-controller", "operator-controller-service", map[int32]int32{8443: 8443}},
	}
	if len(deployments) != len(want) {
		t.Errorf("got %d Deployments, want %d", len(deployments), len(want))
	}

	for name, w := range want {
		deployment := deployments[name]
		if deployment == nil {
			t.Fatalf("got no Deployment %s", name)
		}

		labels := map[string]string{"app.kubernetes.io/name": w.label, "app.kubernetes.io/part-of": "olm", "control-plane": name}
		if diff := cmp.Diff(labels, deployment.Labels); diff != "" {
			t.Errorf("labels of %s (-want +got):\n%s", name, diff)
		}

		expectHardenedPod(t, deployment)
		expectServicePorts(t, services[w.service], deployment, w.ports)
	}
}

func expectHardenedPod(t *testing.T, deployment *appsv1.Deployment) {
	t.Helper()
	pod := deployment.Spec.Template.Spec
	if len(pod.Containers) != 1 || pod.Containers[0].Name != "manager" {
		t.Fatalf("%s: got containers %v, want one named manager", deployment.Name, pod.Containers)
	}

	manager := pod.Containers[0]
	for what, ok := range map[string]bool{
		"non-root":             *pod.SecurityContext.RunAsNonRoot,
		"seccomp":              pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"read-only":            *manager.SecurityContext.ReadOnlyRootFilesystem,
		"no escalation":        !*manager.SecurityContext.AllowPrivilegeEscalation,
		"no capabilities":      slices.Equal(manager.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(manager.SecurityContext.Capabilities.Add) == 0,
		"priority":             pod.PriorityClassName == "system-cluster-critical",
		"memory is requested":  !manager.Resources.Requests.Memory().IsZero(),
		"liveness on healthz":  manager.LivenessProbe.HTTPGet.Path == "/healthz" && manager.LivenessProbe.HTTPGet.Port == intstr.FromString("health"),
		"readiness on readyz":  manager.ReadinessProbe.HTTPGet.Path == "/readyz" && manager.ReadinessProbe.HTTPGet.Port == intstr.FromString("health"),
		"health is port 8081":  slices.ContainsFunc(manager.Ports, func(p corev1.ContainerPort) bool { return p.Name == "health" && p.ContainerPort == 8081 }),
		"every volume bounded": !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.EmptyDir == nil || v.EmptyDir.SizeLimit.IsZero() }),
	} {
		if !ok {
			t.Errorf("%s does not satisfy: %s", deployment.Name, what)
		}
	}
}

// expectServicePorts checks that a Service selects the pods and targets their ports.
func expectServicePorts(t *testing.T, service *corev1.Service, deployment *appsv1.Deployment, want map[int32]int32) {
	t.Helper()
	if service == nil {
		t.Fatalf("%s has no Service", deployment.Name)
	}

	for key, value := range service.Spec.Selector {
		if deployment.Spec.Template.Labels[key] != value {
			t.Errorf("Service %s selects %s=%s, which the pods do not have", service.Name, key, value)
		}
	}

	got := map[int32]int32{}
	for _, port := range service.Spec.Ports {
		for _, container := range deployment.Spec.Template.Spec.Containers[0].Ports {
			if container.Name == port.TargetPort.StrVal {
				got[port.Port] = container.ContainerPort
			}
		}
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ports of Service %s (-want +got):\n%s", service.Name, diff)
	}
}

// Every binding has an existing subject and an existing role. Only operator-controller is
// bound to cluster-admin, and only if it needs to be.
func TestRoleBindings(t *testing.T) {
	for name, installation := range map[string]Installation{
		"default": {}, "ignoring": {IgnoreServiceAccount: true}, "narrow": {Namespace: "elsewhere", RequireServiceAccount: true, PullSecret: "registries/pull"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := loadManifests(t, installation)
			accounts := decodeObjectsOfKind[corev1.ServiceAccount](t, objects, "ServiceAccount")
			clusterRoles := decodeObjectsOfKind[rbacv1.ClusterRole](t, objects, "ClusterRole")
			roles := decodeObjectsOfKind[rbacv1.Role](t, objects, "Role")
			checkSubjects := func(binding string, subjects []rbacv1.Subject) {
				for _, s := range subjects {
					if accounts[s.Name] == nil || s.Namespace != installation.systemNamespace() {
						t.Errorf("%s refers to the missing service account %s/%s", binding, s.Namespace, s.Name)
					}
				}
			}

			all := 0
			for name, binding := range decodeObjectsOfKind[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding") {
				checkSubjects(name, binding.Subjects)
				if binding.RoleRef.Name == "cluster-admin" {
					all++
				} else if clusterRoles[binding.RoleRef.Name] == nil {
					t.Errorf("%s refers to the missing role %s", name, binding.RoleRef.Name)
				}
			}

			for name, binding := range decodeObjectsOfKind[rbacv1.RoleBinding](t, objects, "RoleBinding") {
				checkSubjects(name, binding.Subjects)
				if roles[binding.RoleRef.Name] == nil || roles[binding.RoleRef.Name].Namespace != binding.Namespace {
					t.Errorf("%s refers to the missing role %s", name, binding.RoleRef.Name)
				}
			}

			if want := map[bool]int{false: 1, true: 0}[installation.RequireServiceAccount]; all != want {
				t.Errorf("got %d bindings to cluster-admin, want %d", all, want)
			}
		})
	}
}

// Every manifest of the folder is part of the installation.
func TestKustomizationListsAllFiles(t *testing.T) {
	data, err := config.Files.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}

	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(data, &kustomization); err != nil {
		t.Fatal(err)
	}

	err = fs.WalkDir(config.Files, ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".yaml" && name != "kustomization.yaml" && !slices.Contains(kustomization.Resources, name) {
			t.Errorf("%s is not listed", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestManifestsInvalid(t *testing.T) {
	cases := map[string]struct {
		installation Installation
		want         string
	}{
		"a pull secret without a namespace": {Installation{PullSecret: "pull"}, "NAMESPACE/NAME"},
		"a pull secret of three parts":      {Installation{PullSecret: "a/b/c"}, "NAMESPACE/NAME"},
		"a certificate of another name":     {Installation{PullCAs: map[string][]byte{"ca.der": nil}}, `"ca.der"`},
		"OLM Classic elsewhere":             {Installation{Classic: true, Namespace: "elsewhere"}, "do not apply to OLM Classic"},
		"feature gates of OLM Classic":      {Installation{Classic: true, FeatureGates: []string{"A=true"}}, "do not apply to OLM Classic"},
		"accounts required and ignored":     {Installation{RequireServiceAccount: true, IgnoreServiceAccount: true}, "both required and ignored"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := c.installation.Manifests(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q in it", err, c.want)
			}
		})
	}
}

// The policy that protects custom resources is installed only if it is requested.
func TestProtectionIsOptional(t *testing.T) {
	for _, protect := range []bool{false, true} {
		got := 0
		for _, object := range loadManifests(t, Installation{ProtectCustomResources: protect}) {
			if strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") && object.GetName() == "mainstay-protect-custom-resources" {
				got++
			}
		}
		if want := map[bool]int{false: 0, true: 2}[protect]; got != want {
			t.Errorf("ProtectCustomResources %t: got %d objects of the policy, want %d", protect, got, want)
		}
	}
}

// The CRDs of a platform depend on whether the version of the cluster is managed.
func TestPlatformKinds(t *testing.T) {
	for _, test := range []struct {
		versionManaged bool
		want           []string
	}{
		{false, []string{
			"clusteroperators.config.openshift.io", "imagedigestmirrorsets.config.openshift.io", "imagetagmirrorsets.config.openshift.io",
			"imagecontentsourcepolicies.operator.openshift.io",
		}},
		{true, []string{
			"clusteroperators.config.openshift.io", "clusterversions.config.openshift.io",
			"imagedigestmirrorsets.config.openshift.io", "imagetagmirrorsets.config.openshift.io",
			"machineconfigpools.machineconfiguration.openshift.io", "machineconfigs.machineconfiguration.openshift.io", "imagecontentsourcepolicies.operator.openshift.io",
			"machineconfigurations.operator.openshift.io",
		}},
	} {
		kinds, err := PlatformKinds(test.versionManaged)
		if err != nil {
			t.Fatal(err)
		}

		var names []string
		for _, kind := range kinds {
			names = append(names, kind.GetName())
		}

		if diff := cmp.Diff(test.want, names); diff != "" {
			t.Errorf("kinds where the version is managed=%t (-want +got):\n%s", test.versionManaged, diff)
		}
	}
}

// The console is installed in the namespace and with the image of the components, and has no rights: no role, and no token
// in its pods.
func TestConsoleHasNoRights(t *testing.T) {
	without := map[string]bool{}
	for _, object := range loadManifests(t, Installation{Namespace: "system", Image: "registry.example.com/mainstay:v1"}) {
		without[DescribeKindAndName(object)] = true
	}

	kinds := map[string]bool{}
	for _, object := range loadManifests(t, Installation{Namespace: "system", Image: "registry.example.com/mainstay:v1", Console: true}) {
		if without[DescribeKindAndName(object)] {
			continue
		}
		kinds[object.GetKind()] = true
		if object.GetNamespace() != "system" || strings.Contains(object.GetKind(), "Role") {
			t.Errorf("got %s in namespace %q, want no role, and everything in the namespace of the components", DescribeKindAndName(object), object.GetNamespace())
		}
		if object.GetKind() != "Deployment" {
			continue
		}

		mounts, found, err := unstructured.NestedBool(object.Object, "spec", "template", "spec", "automountServiceAccountToken")
		if err != nil || !found || mounts {
			t.Errorf("the pods of the console have a token (found %t, error %v)", found, err)
		}
		containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if got := containers[0].(map[string]any)["image"]; got != "registry.example.com/mainstay:v1" {
			t.Errorf("got the image %v, want that of the installation", got)
		}
	}
	for _, kind := range []string{"ServiceAccount", "NetworkPolicy", "Service", "Deployment"} {
		if !kinds[kind] {
			t.Errorf("the console has no %s", kind)
		}
	}
}

// The image of the components is replaced in all places of a manifest. Other images are not replaced.
func TestReplaceImage(t *testing.T) {
	const released = "registry.example.com/mainstay@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for name, test := range map[string]struct{ image, value, want string }{
		"the image":              {released, "ghcr.io/mainstay-dev/mainstay:latest", released},
		"the image in a flag":    {released, "--server-image=ghcr.io/mainstay-dev/mainstay:latest", "--server-image=" + released},
		"another tag":            {released, "ghcr.io/mainstay-dev/mainstay:v1", "ghcr.io/mainstay-dev/mainstay:v1"},
		"another image":          {released, "quay.io/operatorhubio/catalog:latest", "quay.io/operatorhubio/catalog:latest"},
		"one with a longer name": {released, "ghcr.io/mainstay-dev/mainstay:latest-debug", "ghcr.io/mainstay-dev/mainstay:latest-debug"},
		"no replacement":         {"", "ghcr.io/mainstay-dev/mainstay:latest", "ghcr.io/mainstay-dev/mainstay:latest"},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := func(value string) map[string]any {
				return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": value, "args": []any{value}}}, "replicas": int64(2)}}
			}
			if diff := cmp.Diff(any(manifest(test.want)), replaceImage(manifest(test.value), test.image)); diff != "" {
				t.Errorf("the manifest differs (-want +got):\n%s", diff)
			}
		})
	}
}

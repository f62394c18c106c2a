package action

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/config"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// DefaultSystemNamespace is the default namespace of Mainstay.
const DefaultSystemNamespace = "olmv1-system"

// Names of the objects that an installation adds for the user's files and pull secret.
const (
	filesConfigMap = "mainstay-files"
	pullSecretRole = "mainstay-pull-secret" //nolint:gosec // G101: the name of a role, not a credential
	filesFolder    = "/etc/mainstay"
)

// Installation configures an installation of Mainstay in a cluster.
type Installation struct {
	// Namespace is the namespace of the components. Empty means DefaultSystemNamespace.
	Namespace string
	// Image is the image of the components.
	Image string
	// RequireServiceAccount refuses extensions without a service account.
	// operator-controller then does not need cluster-admin.
	RequireServiceAccount bool
	// ProtectCustomResources adds an admission policy. It refuses the deletion of
	// extensions with CRDs until a user has decided what happens to the custom resources.
	ProtectCustomResources bool
	// IgnoreServiceAccount installs all extensions with the permissions of
	// operator-controller, regardless of their service account. It excludes
	// RequireServiceAccount.
	IgnoreServiceAccount bool
	// FeatureGates are NAME=true|false for both components.
	FeatureGates []string
	// PullSecret is NAMESPACE/NAME of a Secret with registry credentials. Empty means none.
	PullSecret string
	// RegistriesConf is the content of a registries.conf, which configures mirrors, blocked
	// and insecure registries. Nil means none.
	RegistriesConf []byte
	// SignaturePolicy is the content of a policy.json. Nil means none.
	SignaturePolicy []byte
	// PullCAs are PEM certificates of authorities that are trusted for registries in
	// addition to those of the image. The keys are file names (*.crt or *.pem).
	PullCAs map[string][]byte
	// Classic adds OLM Classic, in the namespaces olm and operators.
	Classic bool
	// Console adds the web console, in Namespace.
	Console bool
	// DefaultCatalogs adds the community's catalog. It requires Classic.
	DefaultCatalogs bool
}

// systemNamespace returns the namespace of the components.
func (in *Installation) systemNamespace() string {
	if in.Namespace == "" {
		return DefaultSystemNamespace
	}
	return in.Namespace
}

// Objects returns all objects of an installation in order: the manifests and, after the
// CRDs, the CRDs of the platform. Those are created only if they are absent.
func (in *Installation) Objects() ([]*unstructured.Unstructured, error) {
	objects, err := in.Manifests()
	if err != nil {
		return nil, err
	}

	platform, err := PlatformKinds(false)
	if err != nil {
		return nil, err
	}

	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() != "CustomResourceDefinition" })
	return slices.Insert(objects, at, platform...), nil
}

// Manifests returns the objects that belong to the installation, in the order in which they
// are applied: CRDs, the namespace, roles, then workloads.
func (in *Installation) Manifests() ([]*unstructured.Unstructured, error) {
	objects, err := readEmbeddedManifests(config.Files, ".")
	if err != nil {
		return nil, fmt.Errorf("reading the manifests of the installation: %w", err)
	}

	if in.RequireServiceAccount && in.IgnoreServiceAccount {
		return nil, &report.Error{
			Object: "installation", Err: errors.New("service accounts cannot be both required and ignored"),
			Advice: "leave out --require-service-account or --ignore-service-account",
		}
	}

	if in.IgnoreServiceAccount {
		if err := replaceWithOption(objects, "options/ignore-service-account.yaml"); err != nil {
			return nil, fmt.Errorf("reading the manifests of the installation: %w", err)
		}
	}

	if in.ProtectCustomResources {
		policy, err := protectionPolicy()
		if err != nil {
			return nil, err
		}
		objects = append(objects, policy...)
	}

	if in.RequireServiceAccount {
		objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "ClusterRoleBinding" && o.GetName() == "operator-controller-cluster-admin"
		})
	}

	for _, object := range objects {
		if err := in.customizeObject(object); err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}

	added, err := in.newFilesConfigMap(in.systemNamespace(), objects, func(string) bool { return true })
	if err != nil {
		return nil, err
	}

	secret, err := in.newPullSecretAccess()
	if err != nil {
		return nil, err
	}

	classic, err := in.classicManifests()
	if err != nil {
		return nil, err
	}

	web, err := in.consoleManifests()
	if err != nil {
		return nil, err
	}

	// Both are inserted after the namespace and before the Deployments that need them.
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" }) + 1
	return append(slices.Insert(objects, at, append(added, secret...)...), append(web, classic...)...), nil
}

// consoleManifests returns the objects of the web console. It returns nil if the console is not part of the installation.
func (in *Installation) consoleManifests() ([]*unstructured.Unstructured, error) {
	if !in.Console {
		return nil, nil
	}

	objects, err := readEmbeddedManifests(config.Console, "console")
	if err != nil {
		return nil, fmt.Errorf("reading the manifests of the console: %w", err)
	}
	for _, object := range objects {
		object.Object, _ = replaceImage(object.Object, in.Image).(map[string]any) // A map is replaced by a map.
		object.SetNamespace(in.systemNamespace())
	}
	return objects, nil
}

// protectionPolicy returns the admission policy that protects custom resources, and its
// binding.
func protectionPolicy() ([]*unstructured.Unstructured, error) {
	objects, err := readEmbeddedManifests(config.ProtectCustomResources, "protect-custom-resources")
	if err != nil {
		return nil, fmt.Errorf("reading the policy that protects custom resources: %w", err)
	}
	return objects, nil
}

// readEmbeddedManifests returns the embedded manifests of a folder, and of the folders that
// its kustomization names, in the order of the kustomization.
func readEmbeddedManifests(files embed.FS, folder string) ([]*unstructured.Unstructured, error) {
	index, err := files.ReadFile(path.Join(folder, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}

	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(index, &kustomization); err != nil {
		return nil, fmt.Errorf("kustomization.yaml: %w", err)
	}

	var objects []*unstructured.Unstructured
	for _, name := range kustomization.Resources {
		if strings.HasPrefix(name, "platform/") {
			continue // PlatformKinds returns them: they are created, not applied.
		}

		if path.Ext(name) == "" {
			nested, err := readEmbeddedManifests(files, path.Join(folder, name))
			if err != nil {
				return nil, err
			}
			objects = append(objects, nested...)
			continue
		}

		data, err := files.ReadFile(path.Join(folder, name))
		if err != nil {
			return nil, err
		}

		documents, err := decodeManifests(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}

		objects = append(objects, documents...)
	}

	return objects, nil
}

// replaceWithOption replaces objects with those of an option file that have the same kind
// and name.
func replaceWithOption(objects []*unstructured.Unstructured, file string) error {
	data, err := config.Options.ReadFile(file)
	if err != nil {
		return err
	}

	chosen, err := decodeManifests(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}

	for _, object := range chosen {
		at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == object.GroupVersionKind() && o.GetName() == object.GetName()
		})
		if at < 0 {
			return fmt.Errorf("%s: there is no %s to replace", file, DescribeKindAndName(object))
		}
		objects[at] = object
	}

	return nil
}

// decodeManifests decodes a stream of YAML or JSON documents. It skips empty ones.
func decodeManifests(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// customizeObject sets the namespace, image and arguments of an object.
func (in *Installation) customizeObject(object *unstructured.Unstructured) error {
	switch object.GetKind() {
	case "Namespace":
		object.SetName(in.systemNamespace())
	case "ClusterRoleBinding", "RoleBinding":
		if err := in.customizeSubjects(object); err != nil {
			return err
		}
	case "Deployment":
		if err := in.customizeDeployment(object); err != nil {
			return err
		}
	}

	if object.GetNamespace() != "" {
		object.SetNamespace(in.systemNamespace())
	}
	return nil
}

// customizeSubjects sets the namespace of the service accounts of a binding.
func (in *Installation) customizeSubjects(object *unstructured.Unstructured) error {
	subjects, _, err := unstructured.NestedSlice(object.Object, "subjects")
	if err != nil {
		return err
	}

	for _, subject := range subjects {
		if s, ok := subject.(map[string]any); ok && s["kind"] == "ServiceAccount" {
			s["namespace"] = in.systemNamespace()
		}
	}
	return unstructured.SetNestedSlice(object.Object, subjects, "subjects")
}

// customizeDeployment sets the image and arguments of a component.
func (in *Installation) customizeDeployment(deployment *unstructured.Unstructured) error {
	return editManagerContainer(deployment, func(manager map[string]any) error {
		if in.Image != "" {
			manager["image"] = in.Image
		}

		args, _, err := unstructured.NestedStringSlice(manager, "args")
		if err != nil {
			return err
		}
		if strings.HasPrefix(deployment.GetName(), "operator-controller") {
			args = append(args, in.serviceAccountArgs()...)
		}

		for _, gate := range in.FeatureGates { // test suites expect one per argument
			args = append(args, "--feature-gates="+gate)
		}

		args = append(args, in.pullArgs()...)
		return unstructured.SetNestedStringSlice(manager, args, "args")
	})
}

// pullArgs returns the arguments of the components that pull images.
func (in *Installation) pullArgs() []string {
	var args []string
	if in.PullSecret != "" {
		args = append(args, "--pull-secret="+in.PullSecret)
	}
	if in.RegistriesConf != nil {
		args = append(args, "--registries-conf="+path.Join(filesFolder, "registries.conf"))
	}
	if in.SignaturePolicy != nil {
		args = append(args, "--signature-policy="+path.Join(filesFolder, "policy.json"))
	}
	if len(in.PullCAs) > 0 {
		args = append(args, "--pull-cas-dir="+path.Join(filesFolder, "cas"))
	}
	return args
}

// serviceAccountArgs returns the arguments of operator-controller that define the meaning
// of spec.serviceAccount.
func (in *Installation) serviceAccountArgs() []string {
	switch {
	case in.RequireServiceAccount:
		return []string{"--require-service-account"}
	case in.IgnoreServiceAccount:
		return []string{"--ignore-service-account"}
	default:
		return nil
	}
}

// editManagerContainer edits the container of a Deployment that runs the component. It is named manager, or like the
// Deployment.
func editManagerContainer(deployment *unstructured.Unstructured, edit func(manager map[string]any) error) error {
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return err
	}

	for _, c := range containers {
		manager, ok := c.(map[string]any)
		if !ok || manager["name"] != "manager" && manager["name"] != deployment.GetName() {
			continue
		}
		if err := edit(manager); err != nil {
			return err
		}
		return unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers")
	}

	return errors.New("no container is named manager")
}

// userFiles are the files of an installation: data and items of a ConfigMap.
type userFiles struct {
	data  map[string]any
	items []any
}

// newUserFiles returns the files of the user.
func (in *Installation) newUserFiles() (*userFiles, error) {
	files := &userFiles{data: map[string]any{}}
	if in.RegistriesConf != nil {
		files.add("", "registries.conf", in.RegistriesConf)
	}
	if in.SignaturePolicy != nil {
		files.add("", "policy.json", in.SignaturePolicy)
	}

	for _, name := range slices.Sorted(maps.Keys(in.PullCAs)) {
		if ext := path.Ext(name); ext != ".crt" && ext != ".pem" {
			return nil, &report.Error{Object: fmt.Sprintf("certificate file %q", name), Err: errors.New("its name ends neither in .crt nor in .pem"), Advice: "rename the file"}
		}
		files.add("cas", name, in.PullCAs[name])
	}

	return files, nil
}

func (f *userFiles) add(folder, name string, content []byte) {
	key := strings.TrimPrefix(folder+"."+name, ".")
	f.data[key] = string(content)
	f.items = append(f.items, map[string]any{"key": key, "path": path.Join(folder, name)})
}

// newFilesConfigMap returns the ConfigMap with the user's files in a namespace, and mounts it in the Deployments that
// need it. It returns nil if there are no files.
func (in *Installation) newFilesConfigMap(namespace string, objects []*unstructured.Unstructured, needsFiles func(deployment string) bool) ([]*unstructured.Unstructured, error) {
	files, err := in.newUserFiles()
	if err != nil || len(files.data) == 0 {
		return nil, err
	}

	for _, object := range objects {
		if object.GetKind() != "Deployment" || !needsFiles(object.GetName()) {
			continue
		}
		if err := mountFilesConfigMap(object, files.items); err != nil {
			return nil, fmt.Errorf("%s: %w", DescribeKindAndName(object), err)
		}
	}

	return []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": filesConfigMap, "namespace": namespace, "labels": map[string]any{"app.kubernetes.io/part-of": "olm"}},
		"data":     files.data,
	}}}, nil
}

// mountFilesConfigMap mounts the items of the ConfigMap with the user's files in a
// Deployment.
func mountFilesConfigMap(deployment *unstructured.Unstructured, items []any) error {
	volumes, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "volumes")
	if err != nil {
		return err
	}

	volumes = append(volumes, map[string]any{
		"name":      "files",
		"configMap": map[string]any{"name": filesConfigMap, "items": items},
	})
	if err := unstructured.SetNestedSlice(deployment.Object, volumes, "spec", "template", "spec", "volumes"); err != nil {
		return err
	}

	return editManagerContainer(deployment, func(manager map[string]any) error {
		mounts, _, err := unstructured.NestedSlice(manager, "volumeMounts")
		if err != nil {
			return err
		}
		mounts = append(mounts, map[string]any{"name": "files", "mountPath": filesFolder, "readOnly": true})
		return unstructured.SetNestedSlice(manager, mounts, "volumeMounts")
	})
}

// newPullSecretAccess returns a Role and a RoleBinding that allow both components to read
// the pull secret only.
func (in *Installation) newPullSecretAccess() ([]*unstructured.Unstructured, error) {
	if in.PullSecret == "" {
		return nil, nil
	}

	namespace, name, ok := strings.Cut(in.PullSecret, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, &report.Error{Object: fmt.Sprintf("pull secret %q", in.PullSecret), Err: errors.New("not of the form NAMESPACE/NAME"), Advice: "name the Secret with its namespace"}
	}

	metadata := func() map[string]any {
		return map[string]any{"name": pullSecretRole, "namespace": namespace, "labels": map[string]any{
			"app.kubernetes.io/name": pullSecretRole, "app.kubernetes.io/part-of": "olm",
		}}
	}
	var subjects []any
	for _, account := range []string{"catalogd-controller-manager", "operator-controller-controller-manager"} {
		subjects = append(subjects, map[string]any{"kind": "ServiceAccount", "name": account, "namespace": in.systemNamespace()})
	}

	return []*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata(),
			"rules": []any{map[string]any{
				"apiGroups": []any{""}, "resources": []any{"secrets"}, "resourceNames": []any{name},
				"verbs": []any{"get"},
			}},
		}},
		{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata(),
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": pullSecretRole},
			"subjects": subjects,
		}},
	}, nil
}

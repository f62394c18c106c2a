// Package strategy computes the Deployments of a ClusterServiceVersion's install strategy, and checks whether
// the existing ones are up to date and healthy.
//
// The package is pure. Package csv writes the Deployments. Package serving manages the Services, certificates and
// roles for what they serve.
package strategy

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// EnvConditionName is the environment variable with the name of an operator's OperatorCondition.
const EnvConditionName = "OPERATOR_CONDITION_NAME"

// proxyVariables are the environment variables of a proxy.
var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}

// Inputs are the inputs of the Deployments besides the ClusterServiceVersion.
type Inputs struct {
	// Config is the configuration of the Subscription; nil when there is none.
	Config *v1alpha1.SubscriptionConfig
	// Proxy are the environment variables of the cluster's proxy; see Proxy.
	Proxy []corev1.EnvVar
	// CAHashes are the hashes of the authorities of serving certificates, by Deployment. They are required
	// for every Deployment that serves webhooks or APIs.
	CAHashes map[string]string
}

// Proxy returns the environment variables for a proxy. It omits empty ones.
func Proxy(httpProxy, httpsProxy, noProxy string) []corev1.EnvVar {
	var env []corev1.EnvVar
	for i, value := range []string{httpProxy, httpsProxy, noProxy} {
		if value != "" {
			env = append(env, corev1.EnvVar{Name: proxyVariables[i], Value: value})
		}
	}
	return env
}

// Check returns an error for an invalid install strategy.
func Check(csv *v1alpha1.ClusterServiceVersion) error {
	if name := csv.Spec.InstallStrategy.StrategyName; name != v1alpha1.InstallStrategyDeployment {
		return fmt.Errorf("unsupported install strategy %q: only %q is known", name, v1alpha1.InstallStrategyDeployment)
	}

	seen := map[string]bool{}
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		if seen[d.Name] {
			return fmt.Errorf("the install strategy has two Deployments of the name %q", d.Name)
		}
		seen[d.Name] = true
	}

	return nil
}

// Deployments returns the wanted Deployments of a ClusterServiceVersion. It returns an error when the strategy is
// invalid, or when a Deployment that serves webhooks or APIs has no authority yet.
func Deployments(csv *v1alpha1.ClusterServiceVersion, in Inputs) ([]appsv1.Deployment, error) {
	if err := Check(csv); err != nil {
		return nil, err
	}

	serves := map[string]bool{}
	for _, e := range csvinfo.Endpoints(csv) {
		serves[e.Deployment.Name] = true
	}

	all := []appsv1.Deployment{}
	for _, wanted := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		d := appsv1.Deployment{
			TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: csv.Namespace, Name: wanted.Name, OwnerReferences: []metav1.OwnerReference{csvinfo.OwnerReference(csv)},
				Labels: csvinfo.MergeLabels(wanted.Label, csvinfo.ComponentLabels(csv.Labels), csvinfo.OwnerLabels(csv.Namespace, csv.Name), map[string]string{csvinfo.LabelManaged: "true"}),
			},
			Spec: *wanted.Spec.DeepCopy(),
		}

		if serves[wanted.Name] {
			hash := in.CAHashes[wanted.Name]
			if hash == "" {
				return nil, fmt.Errorf("deployment %q serves webhooks or APIs, and Secret %q has no authority for it yet", wanted.Name, csvinfo.SecretName(wanted.Name))
			}
			render.MountCertificate(&d, csvinfo.SecretName(wanted.Name))
			metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, csvinfo.AnnotationCAHash, hash)
		}

		applyInputs(&d, csv, in)
		hash, err := csvinfo.Hash(d.Spec)
		if err != nil {
			return nil, fmt.Errorf("deployment %q: %w", d.Name, err)
		}

		d.Labels[csvinfo.LabelDeploymentHash] = hash
		all = append(all, d)
	}

	return all, nil
}

// applyInputs applies annotations, proxy, configuration and OperatorCondition name to a Deployment.
func applyInputs(d *appsv1.Deployment, csv *v1alpha1.ClusterServiceVersion, in Inputs) {
	template := &d.Spec.Template
	if len(csv.Annotations) > 0 {
		annotations := maps.Clone(template.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		maps.Copy(annotations, csv.Annotations)
		template.Annotations = annotations
	}

	if !configuresProxy(in.Config) {
		setEnvironment(template, in.Proxy)
	}
	if in.Config != nil {
		render.ApplyDeploymentConfig(d, in.Config)
	}

	setEnvironment(template, []corev1.EnvVar{{Name: EnvConditionName, Value: csv.Name}})
	// A Deployment is never rolled back to an old ReplicaSet: an upgrade installs another ClusterServiceVersion.
	d.Spec.RevisionHistoryLimit = ptr.To[int32](1)
}

// configuresProxy reports whether a Subscription configures a proxy, which replaces that of the cluster.
func configuresProxy(config *v1alpha1.SubscriptionConfig) bool {
	return config != nil && slices.ContainsFunc(config.Env, func(e corev1.EnvVar) bool { return slices.Contains(proxyVariables, e.Name) })
}

func setEnvironment(template *corev1.PodTemplateSpec, env []corev1.EnvVar) {
	for i := range template.Spec.Containers {
		container := &template.Spec.Containers[i]
		for _, e := range env {
			at := slices.IndexFunc(container.Env, func(other corev1.EnvVar) bool { return other.Name == e.Name })
			if at < 0 {
				container.Env = append(container.Env, e)
			} else {
				container.Env[at] = e
			}
		}
	}
}

// CheckServed returns an error for a webhook or an API whose Deployment is not in the strategy.
func CheckServed(csv *v1alpha1.ClusterServiceVersion) error {
	has := func(name string) bool {
		return slices.ContainsFunc(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, func(d v1alpha1.StrategyDeploymentSpec) bool { return d.Name == name })
	}
	for _, a := range csv.Spec.APIServiceDefinitions.Owned {
		if !has(a.DeploymentName) {
			return fmt.Errorf("strategyDetailsDeployment is missing deployment %s for owned APIService %s", a.DeploymentName, csvinfo.APIServiceName(a))
		}
	}

	for _, w := range csv.Spec.WebhookDefinitions {
		if !has(w.DeploymentName) {
			return fmt.Errorf("strategyDetailsDeployment is missing deployment %s for WebhookDescription %s", w.DeploymentName, w.GenerateName)
		}
	}
	return nil
}

// IsOrphan reports whether a Deployment was created for the ClusterServiceVersion and is no longer in its strategy.
func IsOrphan(csv *v1alpha1.ClusterServiceVersion, d metav1.Object) bool {
	return csvinfo.HasLabels(d.GetLabels(), csvinfo.OwnerLabels(csv.Namespace, csv.Name)) && csvinfo.IsOwner(d.GetOwnerReferences(), csv) &&
		!slices.ContainsFunc(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, func(s v1alpha1.StrategyDeploymentSpec) bool { return s.Name == d.GetName() })
}

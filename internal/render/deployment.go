package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// Annotations of the pods, from which operators read the namespaces to watch.
const (
	// AnnotationTargetNamespaces holds the watched namespaces, separated by commas. Empty means
	// all.
	AnnotationTargetNamespaces = "olm.targetNamespaces"
	// AnnotationOperatorNamespace holds the namespace of the operator.
	AnnotationOperatorNamespace = "olm.operatorNamespace"
)

// renderDeployments returns the Deployments of a CSV.
func renderDeployments(b *bundle.Bundle, opts Options, targets []string) ([]runtime.Object, error) {
	var objects []runtime.Object
	for _, wanted := range b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		deployment := &appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{Namespace: opts.InstallNamespace, Name: wanted.Name, Labels: maps.Clone(wanted.Label)},
			Spec:       *wanted.Spec.DeepCopy(),
		}
		annotations := map[string]string{}
		maps.Copy(annotations, b.CSV.Annotations)
		maps.Copy(annotations, wanted.Spec.Template.Annotations)
		annotations[AnnotationTargetNamespaces] = strings.Join(targets, ",")
		annotations[AnnotationOperatorNamespace] = opts.InstallNamespace
		deployment.Spec.Template.Annotations = annotations
		// A rollback uses another bundle, never an old ReplicaSet.
		deployment.Spec.RevisionHistoryLimit = ptr.To[int32](1)
		servesWebhook := func(w v1alpha1.WebhookDescription) bool { return w.DeploymentName == wanted.Name }
		if slices.ContainsFunc(b.CSV.Spec.WebhookDefinitions, servesWebhook) {
			// The configuration is applied after it, because its volumes take precedence.
			MountCertificate(deployment, opts.Issuer.CertificateName(wanted.Name))
		}
		if err := applyConfig(deployment, opts.DeploymentConfig); err != nil {
			return nil, err
		}

		objects = append(objects, deployment)
	}

	return objects, nil
}

// applyConfig applies a configuration. It returns an error for mounts of volumes that the pod does
// not have.
func applyConfig(deployment *appsv1.Deployment, config *v1alpha1.SubscriptionConfig) error {
	if config == nil {
		return nil
	}

	ApplyDeploymentConfig(deployment, config)
	for _, mount := range config.VolumeMounts {
		named := func(v corev1.Volume) bool { return v.Name == mount.Name }
		if !slices.ContainsFunc(deployment.Spec.Template.Spec.Volumes, named) {
			return &ConfigError{Problems: []string{fmt.Sprintf(
				"deploymentConfig.volumeMounts names the volume %q, which the deployment %q does not have: add it to deploymentConfig.volumes", mount.Name, deployment.Name)}}
		}
	}

	return nil
}

// ApplyDeploymentConfig changes a Deployment in the way of a Subscription's spec.config, which the
// fields of the configuration describe. The Deployment shares no memory with the configuration
// afterwards.
func ApplyDeploymentConfig(deployment *appsv1.Deployment, config *v1alpha1.SubscriptionConfig) {
	config = config.DeepCopy()
	template := &deployment.Spec.Template
	deployment.Annotations = addMissingEntries(deployment.Annotations, config.Annotations)
	template.Annotations = addMissingEntries(template.Annotations, config.Annotations)

	pod := &template.Spec
	if config.NodeSelector != nil {
		pod.NodeSelector = config.NodeSelector
	}

	pod.Tolerations = appendMissingItems(pod.Tolerations, config.Tolerations)
	pod.Volumes = replaceOrAppendByName(pod.Volumes, config.Volumes, func(v corev1.Volume) string { return v.Name })
	if config.Affinity != nil {
		pod.Affinity = mergeAffinity(pod.Affinity, config.Affinity)
	}

	for i := range pod.Containers {
		own := config.DeepCopy()
		container := &pod.Containers[i]
		container.Env = replaceOrAppendByName(container.Env, own.Env, func(e corev1.EnvVar) string { return e.Name })
		container.EnvFrom = appendMissingItems(container.EnvFrom, own.EnvFrom)
		container.VolumeMounts = replaceOrAppendByName(container.VolumeMounts, own.VolumeMounts, func(m corev1.VolumeMount) string { return m.Name })
		if own.Resources != nil {
			container.Resources = *own.Resources
		}
	}
}

// addMissingEntries adds the entries whose keys are missing.
func addMissingEntries(to, from map[string]string) map[string]string {
	if len(from) == 0 {
		return to
	}
	result := maps.Clone(from)
	maps.Copy(result, to)
	return result
}

// appendMissingItems appends the items that have no equal.
func appendMissingItems[T any](to, from []T) []T {
	for _, item := range from {
		if !slices.ContainsFunc(to, func(other T) bool { return equality.Semantic.DeepEqual(item, other) }) {
			to = append(to, item)
		}
	}
	return to
}

// replaceOrAppendByName replaces the first item of the same name in place, and appends items with
// new names.
func replaceOrAppendByName[T any](to, from []T, name func(T) string) []T {
	for _, item := range from {
		i := slices.IndexFunc(to, func(other T) bool { return name(other) == name(item) })
		if i < 0 {
			to = append(to, item)
		} else {
			to[i] = item
		}
	}

	return to
}

// mergeAffinity merges affinity by kind: a set kind replaces, an empty one removes. It returns nil
// if nothing is left.
func mergeAffinity(to, from *corev1.Affinity) *corev1.Affinity {
	var none corev1.Affinity
	if to == nil || equality.Semantic.DeepEqual(*from, none) {
		to = &corev1.Affinity{}
	}

	to.NodeAffinity = replaceOrRemove(to.NodeAffinity, from.NodeAffinity)
	to.PodAffinity = replaceOrRemove(to.PodAffinity, from.PodAffinity)
	to.PodAntiAffinity = replaceOrRemove(to.PodAntiAffinity, from.PodAntiAffinity)
	if equality.Semantic.DeepEqual(*to, none) {
		return nil
	}

	return to
}

func replaceOrRemove[T any](to, from *T) *T {
	var empty T
	switch {
	case from == nil:
		return to
	case equality.Semantic.DeepEqual(*from, empty):
		return nil
	default:
		return from
	}
}

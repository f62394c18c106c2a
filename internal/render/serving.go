package render

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// Annotations by which rendered objects ask the built-in issuer for certificates. No
// rendered object holds a certificate: whoever issues them adds fields that nothing here
// sets, so that neither takes them from the other.
const (
	// AnnotationServingCertificate stands on a Service, and names the Secret in its
	// namespace that the pods behind it expect: of type kubernetes.io/tls, with a
	// certificate for the host names of the Service.
	AnnotationServingCertificate = "mainstay.dev/serving-certificate"
	// AnnotationCAFrom stands on webhook configurations and on CRDs with a conversion
	// webhook, and names that Secret as <namespace>/<name>: what its certificate is to
	// be trusted by belongs into the caBundle of every webhook of the object.
	AnnotationCAFrom = "mainstay.dev/ca-from"
)

// defaultPort is the port of a webhook that names none.
const defaultPort int32 = 443

// certificateVolumes are the volumes through which the containers of a webhook's
// Deployment get its certificate: operators look in the one place or in the other.
var certificateVolumes = []struct{ name, path, certificate, key string }{
	{"apiservice-cert", "/apiserver.local.config/certificates", "apiserver.crt", "apiserver.key"},
	{"webhook-cert", "/tmp/k8s-webhook-server/serving-certs", corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
}

// ServiceName names the Service in front of the webhooks of a Deployment. A Service's
// name, unlike a role's, has no room for a 64th character.
func ServiceName(deployment string) string {
	const suffix = "service"
	base := strings.ReplaceAll(deployment, ".", "-")
	return base[:min(len(base), maxNameLength-len("-"+suffix))] + "-" + suffix
}

// servicePort is the port of the Service by which a webhook is reached.
func servicePort(webhook v1alpha1.WebhookDescription) corev1.ServicePort {
	port := cmp.Or(webhook.ContainerPort, defaultPort)
	target := intstr.FromInt32(port)
	if webhook.TargetPort != nil {
		target = *webhook.TargetPort
	}
	return corev1.ServicePort{Name: strconv.Itoa(int(port)), Port: port, TargetPort: target}
}

// services are the Services in front of webhooks, one for each Deployment that has
// some.
func services(b *bundle.Bundle, namespace string, issuer Issuer) []runtime.Object {
	ports := map[string][]corev1.ServicePort{}
	for _, webhook := range b.CSV.Spec.WebhookDefinitions {
		port := servicePort(webhook)
		if !slices.Contains(ports[webhook.DeploymentName], port) {
			ports[webhook.DeploymentName] = append(ports[webhook.DeploymentName], port)
		}
	}

	var objects []runtime.Object
	for _, deployment := range b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		open := ports[deployment.Name]
		if len(open) == 0 {
			continue
		}
		slices.SortFunc(open, func(a, b corev1.ServicePort) int { return cmp.Compare(a.Port, b.Port) })
		objects = append(objects, &corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: ServiceName(deployment.Name),
				Annotations: issuer.onService(deployment.Name),
			},
			Spec: corev1.ServiceSpec{Ports: open, Selector: podLabels(deployment.Spec)},
		})
	}

	return objects
}

// podLabels are labels that the pods of a Deployment have, and no others.
func podLabels(spec appsv1.DeploymentSpec) map[string]string {
	if spec.Selector != nil && len(spec.Selector.MatchLabels) > 0 {
		return maps.Clone(spec.Selector.MatchLabels)
	}
	return maps.Clone(spec.Template.Labels)
}

// MountCertificate mounts the Secret with the certificate into every container of a
// Deployment that serves webhooks or APIs. Volumes with the names of ours or mounted where ours belong are
// replaced: they stand for a certificate manager that the author had.
func MountCertificate(deployment *appsv1.Deployment, secret string) {
	pod := &deployment.Spec.Template.Spec
	replaced := map[string]bool{}
	for _, ours := range certificateVolumes {
		replaced[ours.name] = true
		for _, container := range pod.Containers {
			for _, mount := range container.VolumeMounts {
				if strings.TrimSuffix(mount.MountPath, "/") == ours.path {
					replaced[mount.Name] = true
				}
			}
		}
	}

	pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool { return replaced[v.Name] })
	unmount := func(containers []corev1.Container) {
		for i := range containers {
			containers[i].VolumeMounts = slices.DeleteFunc(containers[i].VolumeMounts, func(m corev1.VolumeMount) bool { return replaced[m.Name] })
		}
	}
	unmount(pod.InitContainers)
	unmount(pod.Containers)
	for _, ours := range certificateVolumes {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: ours.name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: secret,
			Items: []corev1.KeyToPath{
				{Key: corev1.TLSCertKey, Path: ours.certificate},
				{Key: corev1.TLSPrivateKeyKey, Path: ours.key},
			},
		}}})
		for i := range pod.Containers {
			container := &pod.Containers[i]
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: ours.name, MountPath: ours.path})
		}
	}
}

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

// Annotations by which rendered objects request certificates from the built-in issuer. No
// rendered object contains a certificate: the issuer sets fields that rendering does not
// set, so that there are no field conflicts.
const (
	// AnnotationServingCertificate is the annotation of a Service with the name of a Secret in its
	// namespace that its pods expect. The Secret is of type kubernetes.io/tls, with a certificate
	// for the host names of the Service.
	AnnotationServingCertificate = "mainstay.dev/serving-certificate"
	// AnnotationCAFrom is the annotation of webhook configurations, and of CRDs with a conversion
	// webhook, with that Secret as <namespace>/<name>. The authorities of its certificate belong
	// into the caBundle of every webhook of the object.
	AnnotationCAFrom = "mainstay.dev/ca-from"
	// AnnotationServingCertificateOf is the annotation of issued Secrets, with the name of their
	// Service. Unlike owner references it survives backup and restore. The issuer does not write
	// Secrets without it.
	AnnotationServingCertificateOf = "mainstay.dev/serving-certificate-of"
)

// KeyServingAuthorities is the key of issued Secrets for the authorities of the certificate, in PEM:
// during and after a renewal the new and the old one.
const KeyServingAuthorities = "ca.crt"

// defaultPort is the port of a webhook that does not state one.
const defaultPort int32 = 443

// certificateVolumes are the volumes that mount the certificate into the containers of a webhook's
// Deployment. Operators read it from one of the two paths.
var certificateVolumes = []struct{ name, path, certificate, key string }{
	{"apiservice-cert", "/apiserver.local.config/certificates", "apiserver.crt", "apiserver.key"},
	{"webhook-cert", "/tmp/k8s-webhook-server/serving-certs", corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
}

// ServiceName returns the name of the Service for the webhooks of a Deployment. Unlike the name of
// a role, it must not have a 64th character.
func ServiceName(deployment string) string {
	const suffix = "service"
	base := strings.ReplaceAll(deployment, ".", "-")
	return base[:min(len(base), maxNameLength-len("-"+suffix))] + "-" + suffix
}

// webhookServicePort returns the port of the Service for a webhook.
func webhookServicePort(webhook v1alpha1.WebhookDescription) corev1.ServicePort {
	port := cmp.Or(webhook.ContainerPort, defaultPort)
	target := intstr.FromInt32(port)
	if webhook.TargetPort != nil {
		target = *webhook.TargetPort
	}
	return corev1.ServicePort{Name: strconv.Itoa(int(port)), Port: port, TargetPort: target}
}

// renderServices returns the Services for webhooks: one for each Deployment with webhooks.
func renderServices(b *bundle.Bundle, namespace string, issuer Issuer) []runtime.Object {
	ports := map[string][]corev1.ServicePort{}
	for _, webhook := range b.CSV.Spec.WebhookDefinitions {
		port := webhookServicePort(webhook)
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
				Annotations: issuer.serviceAnnotations(deployment.Name),
			},
			Spec: corev1.ServiceSpec{Ports: open, Selector: podLabels(deployment.Spec)},
		})
	}

	return objects
}

// podLabels returns labels that only the pods of a Deployment have.
func podLabels(spec appsv1.DeploymentSpec) map[string]string {
	if spec.Selector != nil && len(spec.Selector.MatchLabels) > 0 {
		return maps.Clone(spec.Selector.MatchLabels)
	}
	return maps.Clone(spec.Template.Labels)
}

// MountCertificate mounts the Secret with the certificate into every container of a Deployment
// that serves webhooks or APIs. It replaces volumes with the same names or mount paths: the author
// meant them for a certificate manager.
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

package render

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// Issuer is the issuer of webhook certificates.
type Issuer string

const (
	// IssuerBuiltIn is the controller that implements AnnotationServingCertificate and
	// AnnotationCAFrom.
	IssuerBuiltIn Issuer = ""
	// IssuerCertManager is cert-manager. The objects of a bundle with webhooks then include an
	// Issuer of self-signed certificates, and a Certificate for each Deployment with webhooks.
	IssuerCertManager Issuer = "cert-manager"
	// IssuerClassic is the built-in issuer with the Secrets of OLM Classic. A Deployment that OLM
	// Classic installed mounts them already.
	IssuerClassic Issuer = "classic"
)

// AnnotationInjectCAFrom is cert-manager's counterpart of AnnotationCAFrom. It names the
// Certificate as <namespace>/<name>.
const AnnotationInjectCAFrom = "cert-manager.io/inject-ca-from"

// AnnotationCAIssuer marks objects on which this package has set AnnotationInjectCAFrom. Its value
// is the issuer. It is needed because bundles contain CRDs with cert-manager's annotation for
// certificates that were not requested.
const AnnotationCAIssuer = "mainstay.dev/ca-issuer"

// CertManagerVersion is the API version of cert-manager that is used.
const CertManagerVersion = "cert-manager.io/v1"

// certificateDuration is the validity of cert-manager's certificates, and certificateRenewBefore
// is how long before the expiry they are renewed. cert-manager replaces the key and the caBundle
// at once, but pods observe a changed Secret up to a minute later, and webhooks fail meanwhile. So
// the validity is two years, as for certificates of OLM Classic.
const certificateDuration, certificateRenewBefore = "17520h0m0s", "24h0m0s"

func (i Issuer) validate() error {
	if !slices.Contains([]Issuer{IssuerBuiltIn, IssuerCertManager, IssuerClassic}, i) {
		return fmt.Errorf("rendering a bundle: unknown issuer of certificates %q", i)
	}
	return nil
}

// CertificateName returns the name of the Secret with the certificate of a Deployment's webhooks,
// and of the Certificate if there is one. The built-in issuer and cert-manager have different names,
// so that a Deployment that moves to the other issuer can use the old Secret until the new one exists.
func (i Issuer) CertificateName(deployment string) string {
	suffix := "cert"
	if i == IssuerBuiltIn {
		suffix = "serving"
	}
	return uniqueName(ServiceName(deployment), suffix)
}

// serviceAnnotations returns the annotations of a Service for webhooks.
func (i Issuer) serviceAnnotations(deployment string) map[string]string {
	if i == IssuerCertManager {
		return nil
	}
	return map[string]string{AnnotationServingCertificate: i.CertificateName(deployment)}
}

// consumerAnnotations returns the annotations of objects that need the caBundle.
func (i Issuer) consumerAnnotations(namespace, deployment string) map[string]string {
	from := namespace + "/" + i.CertificateName(deployment)
	if i == IssuerCertManager {
		return map[string]string{AnnotationInjectCAFrom: from, AnnotationCAIssuer: string(i)}
	}
	return map[string]string{AnnotationCAFrom: from}
}

// renderCertificates returns the objects that request certificates from cert-manager.
func (i Issuer) renderCertificates(b *bundle.Bundle, namespace string) []runtime.Object {
	if i != IssuerCertManager {
		return nil
	}

	deployments := map[string]bool{}
	for _, webhook := range b.CSV.Spec.WebhookDefinitions {
		deployments[webhook.DeploymentName] = true
	}

	var objects []runtime.Object
	for _, deployment := range slices.Sorted(maps.Keys(deployments)) {
		name, service := i.CertificateName(deployment), ServiceName(deployment)
		issuer := uniqueName(name, "selfsigned-issuer")
		objects = append(objects,
			certManagerObject("Issuer", namespace, issuer, map[string]any{"selfSigned": map[string]any{}}),
			certManagerObject("Certificate", namespace, name, map[string]any{
				"secretName":  name,
				"dnsNames":    []any{service + "." + namespace + ".svc", service + "." + namespace + ".svc.cluster.local", service + "." + namespace},
				"duration":    certificateDuration,
				"renewBefore": certificateRenewBefore,
				"usages":      []any{"server auth"},
				"privateKey":  map[string]any{"algorithm": "ECDSA", "size": int64(256), "rotationPolicy": "Always"},
				"issuerRef":   map[string]any{"group": "cert-manager.io", "kind": "Issuer", "name": issuer},
			}))
	}

	return objects
}

func certManagerObject(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(CertManagerVersion)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

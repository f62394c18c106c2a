package render

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// Issuer is who issues the certificates of webhooks.
type Issuer string

const (
	// IssuerBuiltIn is whoever follows AnnotationServingCertificate and AnnotationCAFrom.
	IssuerBuiltIn Issuer = ""
	// IssuerCertManager is cert-manager. The objects of a bundle with webhooks then
	// include an Issuer that signs certificates with their own keys, and a Certificate for
	// each Deployment with webhooks.
	IssuerCertManager Issuer = "cert-manager"
)

// AnnotationInjectCAFrom is cert-manager's counterpart of AnnotationCAFrom: it names the
// Certificate as <namespace>/<name>.
const AnnotationInjectCAFrom = "cert-manager.io/inject-ca-from"

// AnnotationCAIssuer stands beside it where it was set here, with the issuer as its value.
// Bundles bring definitions with cert-manager's annotation for certificates that nobody
// asked for.
const AnnotationCAIssuer = "mainstay.dev/ca-issuer"

// CertManagerVersion is the API of cert-manager that is used.
const CertManagerVersion = "cert-manager.io/v1"

// certificateDuration and certificateReserve are for how long cert-manager issues, and
// how long before the end it issues anew. It replaces key and trust at once, while pods
// see a changed Secret a minute later, so that webhooks fail meanwhile: hence two years,
// which OLM Classic gives its certificates too.
const certificateDuration, certificateReserve = "17520h0m0s", "24h0m0s"

func (i Issuer) check() error {
	if i != IssuerBuiltIn && i != IssuerCertManager {
		return fmt.Errorf("rendering a bundle: unknown issuer of certificates %q", i)
	}
	return nil
}

// certificate names the Secret with the certificate of a Deployment's webhooks, and the
// Certificate where there is one. The names of two issuers differ, so that a Deployment
// that moves from one to the other finds the old Secret until it has the new one.
func (i Issuer) certificate(deployment string) string {
	suffix := "serving"
	if i == IssuerCertManager {
		suffix = "cert"
	}
	return uniqueName(ServiceName(deployment), suffix)
}

// onService are the annotations of a Service in front of webhooks.
func (i Issuer) onService(deployment string) map[string]string {
	if i == IssuerCertManager {
		return nil
	}
	return map[string]string{AnnotationServingCertificate: i.certificate(deployment)}
}

// onConsumer are the annotations of objects that trust the certificate.
func (i Issuer) onConsumer(namespace, deployment string) map[string]string {
	from := namespace + "/" + i.certificate(deployment)
	if i == IssuerCertManager {
		return map[string]string{AnnotationInjectCAFrom: from, AnnotationCAIssuer: string(i)}
	}
	return map[string]string{AnnotationCAFrom: from}
}

// certificates are the objects that ask cert-manager for certificates.
func (i Issuer) certificates(b *bundle.Bundle, namespace string) []runtime.Object {
	if i != IssuerCertManager {
		return nil
	}

	deployments := map[string]bool{}
	for _, webhook := range b.CSV.Spec.WebhookDefinitions {
		deployments[webhook.DeploymentName] = true
	}

	var objects []runtime.Object
	for _, deployment := range slices.Sorted(maps.Keys(deployments)) {
		name, service := i.certificate(deployment), ServiceName(deployment)
		issuer := uniqueName(name, "selfsigned-issuer")
		objects = append(objects,
			certManagerObject("Issuer", namespace, issuer, map[string]any{"selfSigned": map[string]any{}}),
			certManagerObject("Certificate", namespace, name, map[string]any{
				"secretName":  name,
				"dnsNames":    []any{service + "." + namespace + ".svc", service + "." + namespace + ".svc.cluster.local", service + "." + namespace},
				"duration":    certificateDuration,
				"renewBefore": certificateReserve,
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

package migration

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/render"
)

// awaitAuthorities waits until the webhooks of the extension trust the certificate that the pods
// serve. The webhook configurations of OLM Classic are deleted after that.
func (m *adoption) awaitAuthorities(ctx context.Context, s *snapshot) error {
	if !servesWebhooks(s) {
		return nil
	}
	return m.pollUntil(ctx, "the certificates of clusterextension "+s.Extension.Name, func(ctx context.Context) (bool, string, error) {
		for _, object := range s.listObjects(plan.ActionAdopt, plan.ActionCreate) {
			u := object.Reference()
			if len(clientConfigPaths[u.GetKind()]) == 0 {
				continue
			}
			ok, err := getOptional(ctx, m.Client, client.ObjectKeyFromObject(u), u)
			if err != nil {
				return false, "", err
			}
			if !ok {
				return false, fmt.Sprintf("%s %s does not exist", object.Kind, object.Name), nil
			}
			if problem, err := m.findUntrustedWebhook(ctx, u); err != nil || problem != "" {
				return false, fmt.Sprintf("%s %s: %s", object.Kind, object.Name, problem), err
			}
		}
		return true, "", nil
	})
}

// clientConfigPaths are the fields with client configurations of webhooks, by kind. The first element
// is a list for webhook configurations.
var clientConfigPaths = map[string][]string{
	"ValidatingWebhookConfiguration": {"webhooks"},
	"MutatingWebhookConfiguration":   {"webhooks"},
	"CustomResourceDefinition":       {"spec", "conversion", "webhook", "clientConfig"},
}

// findUntrustedWebhook returns the problem of the first webhook whose authorities do not verify the
// serving certificate, or an empty text.
func (m *adoption) findUntrustedWebhook(ctx context.Context, u *unstructured.Unstructured) (string, error) {
	from := findServingSecret(u.GetAnnotations())
	namespace, name, ok := strings.Cut(from, "/")
	if !ok {
		return "", nil // It requests no certificate.
	}

	secret := &corev1.Secret{}
	if ok, err := getOptional(ctx, m.Client, client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
		return "", err
	} else if !ok {
		return fmt.Sprintf("secret %s does not exist", from), nil
	}

	for _, bundle := range caBundlesOf(u) {
		if problem := verifyCertificate(bundle, secret.Data[corev1.TLSCertKey]); problem != "" {
			return problem, nil
		}
	}
	return "", nil
}

// findServingSecret returns the Secret with the serving certificate of an object with webhooks, as <namespace>/<name>, or an empty
// text. An annotation of cert-manager that the author of a bundle has left in a CRD names a Secret that is never requested.
func findServingSecret(annotations map[string]string) string {
	if annotations[render.AnnotationCAIssuer] != "" {
		return annotations[render.AnnotationInjectCAFrom]
	}
	return annotations[render.AnnotationCAFrom]
}

// caBundlesOf returns the authorities of all webhooks of an object, as PEM. Those of a webhook without
// any are empty.
func caBundlesOf(u *unstructured.Unstructured) [][]byte {
	decode := func(config map[string]any) []byte {
		text, _, _ := unstructured.NestedString(config, "caBundle")
		data, _ := base64.StdEncoding.DecodeString(text) // the API server has validated it
		return data
	}

	path := clientConfigPaths[u.GetKind()]
	if config, ok, _ := unstructured.NestedMap(u.Object, path...); ok {
		return [][]byte{decode(config)}
	}

	var bundles [][]byte
	webhooks, _, _ := unstructured.NestedSlice(u.Object, path...)
	for _, webhook := range webhooks {
		fields, _ := webhook.(map[string]any)
		config, _, _ := unstructured.NestedMap(fields, "clientConfig")
		bundles = append(bundles, decode(config))
	}
	return bundles
}

// verifyCertificate returns why authorities do not verify a certificate, or an empty text. Both are
// PEM.
func verifyCertificate(authorities, certificate []byte) string {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return "the serving certificate is missing"
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Sprintf("the serving certificate cannot be parsed: %v", err)
	}

	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		return "it has no authority yet"
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return fmt.Sprintf("its authority does not verify the serving certificate: %v", err)
	}
	return ""
}

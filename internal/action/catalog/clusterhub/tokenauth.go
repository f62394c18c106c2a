package clusterhub

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/hub"
)

// readTokenAuthCloud returns the cloud whose short-lived credentials the cluster uses. It is empty on a cluster without the
// kinds of OpenShift, and for a user who may not read them.
func readTokenAuthCloud(ctx context.Context, c client.Client) string {
	const configGroup, operatorGroup = "config.openshift.io", "operator.openshift.io"
	var config hub.CloudConfig
	for _, from := range []struct {
		group, kind string
		path        []string
		value       *string
	}{
		{configGroup, "Infrastructure", []string{"status", "platformStatus", "type"}, &config.Platform},
		{configGroup, "Authentication", []string{"spec", "serviceAccountIssuer"}, &config.ServiceAccountIssuer},
		{operatorGroup, "CloudCredential", []string{"spec", "credentialsMode"}, &config.CredentialsMode},
	} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: from.group, Version: "v1", Kind: from.kind})
		if err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, object); err != nil {
			return "" // the feature is not listed
		}
		*from.value, _, _ = unstructured.NestedString(object.Object, from.path...)
	}
	return config.TokenAuthCloud()
}

package copied

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// metadataOnly is the media type of a response that contains only the metadata of an object.
const metadataOnly = runtime.ContentTypeJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// copyCreator creates copies. Neither does it encode the content of each copy, nor does the API server return it.
type copyCreator struct {
	client   rest.Interface
	resource string
}

func newCopyCreator(mgr ctrl.Manager) (*copyCreator, error) {
	kind := v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind)
	mapping, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("asking for the resource of ClusterServiceVersions: %w", err)
	}
	client, err := apiutil.RESTClientForGVK(kind, true, false, mgr.GetConfig(), serializer.NewCodecFactory(mgr.GetScheme()), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("creating a client of ClusterServiceVersions: %w", err)
	}
	return &copyCreator{client: client, resource: mapping.Resource.Resource}, nil
}

// createCopy creates a copy in a namespace from its encoded content, and returns its metadata.
func (c *copyCreator) createCopy(ctx context.Context, namespace string, content []byte) (*metav1.PartialObjectMetadata, error) {
	result := c.client.Post().Namespace(namespace).Resource(c.resource).SetHeader("Accept", metadataOnly).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(content).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}

	response, err := result.Raw()
	if err != nil {
		return nil, err
	}
	created := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(response, created); err != nil {
		return nil, fmt.Errorf("decoding the metadata of a created copy: %w", err)
	}
	return created, nil
}

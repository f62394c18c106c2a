package bundleconfigmap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/bundle/configmap"
)

// Write stores a bundle in an existing ConfigMap.
type Write struct {
	// Config is the configuration of the cluster.
	Config *rest.Config
	// Namespace and Name identify the ConfigMap.
	Namespace, Name string
	// Bundle contains the folders manifests and metadata.
	Bundle fs.FS
	// Limit is the maximum size of all stored files in bytes.
	Limit uint64
	// Gzip compresses the files.
	Gzip bool
	// Image is the image of the bundle. It may be empty.
	Image string
}

// Run loads the bundle and replaces the data of the ConfigMap. Annotations that do not
// belong to the bundle remain.
func (w *Write) Run(ctx context.Context) error {
	files, err := bundle.ReadFiles(w.Bundle)
	if err != nil {
		return err
	}

	c, err := configmap.FromBundle(files, w.Limit, w.Gzip)
	if err != nil {
		return err
	}

	client, err := rest.HTTPClientFor(w.Config)
	if err != nil {
		return fmt.Errorf("reaching the cluster: %w", err)
	}

	server, _, err := rest.DefaultServerUrlFor(w.Config)
	if err != nil {
		return fmt.Errorf("reaching the cluster: %w", err)
	}

	at := server.JoinPath("api/v1/namespaces", w.Namespace, "configmaps", w.Name)
	var configMap corev1.ConfigMap
	if err := doRequest(ctx, client, http.MethodGet, at, nil, &configMap); err != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", w.Namespace, w.Name, err)
	}

	configMap.Data, configMap.BinaryData = c.Data, c.BinaryData
	if configMap.Annotations == nil {
		configMap.Annotations = map[string]string{}
	}

	maps.Copy(configMap.Annotations, c.Annotations)
	if w.Image != "" {
		configMap.Annotations[configmap.AnnotationImage] = w.Image
	}
	if err := doRequest(ctx, client, http.MethodPut, at, &configMap, nil); err != nil {
		return fmt.Errorf("updating ConfigMap %s/%s: %w", w.Namespace, w.Name, err)
	}

	return nil
}

// maxResponseBytes limits the size of a response of the API server: several times the
// maximum of a ConfigMap.
const maxResponseBytes = 8 << 20

// doRequest sends a request to the API server and decodes the response.
func doRequest(ctx context.Context, client *http.Client, method string, at *url.URL, object, into any) error {
	var body io.Reader
	if object != nil {
		data, err := json.Marshal(object)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}

	request, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return err
	}

	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes))
	if err != nil {
		return err
	}

	if response.StatusCode != http.StatusOK {
		var status metav1.Status
		if json.Unmarshal(answer, &status) == nil && status.Message != "" {
			return errors.New(status.Message)
		}
		return fmt.Errorf("the API server answered %s", response.Status)
	}

	if into == nil {
		return nil
	}

	return json.Unmarshal(answer, into)
}

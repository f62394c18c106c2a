package configmapserver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// readTimeout limits the request for the ConfigMap.
const readTimeout = 30 * time.Second

// Server serves the catalog in a ConfigMap until its context ends. It reads the ConfigMap once:
// catalog-operator replaces its pod when the ConfigMap changes.
type Server struct {
	// Config is the connection to the API server. Its account needs the right to get the ConfigMap.
	Config *rest.Config
	// Namespace and Name are those of the ConfigMap.
	Namespace, Name string
	// Permissive serves what is valid of a ConfigMap with problems.
	Permissive bool
	// Registry is the gRPC server. Run sets its source.
	Registry registry.Server
}

// Run reads the ConfigMap and serves it. It appends its error to the termination log of the
// registry.
func (s *Server) Run(ctx context.Context) error {
	if s.Registry.Log == nil {
		s.Registry.Log = slog.New(slog.DiscardHandler)
	}

	s.Registry.Source = content.Stream{
		Name: s.describe(), All: s.readBlobs(ctx),
		Checksum: func(context.Context) (uint64, error) { return 0, errors.New("a ConfigMap has no cache") },
	}

	return s.Registry.Run(ctx)
}

// describe returns the kind, namespace and name of the ConfigMap.
func (s *Server) describe() string { return fmt.Sprintf("ConfigMap %s/%s", s.Namespace, s.Name) }

// readBlobs reads the ConfigMap when it is iterated over, and yields the blobs of its catalog.
func (s *Server) readBlobs(ctx context.Context) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		catalog, err := s.readCatalog(ctx)
		if err != nil {
			yield(fbc.Meta{}, err)
			return
		}
		yieldAll(catalog.Blobs)(yield)
	}
}

// readCatalog reads the ConfigMap and converts it.
func (s *Server) readCatalog(ctx context.Context) (*Catalog, error) {
	configMap, err := s.readConfigMap(ctx)
	if err != nil {
		return nil, err
	}

	catalog, err := Parse(configMap.Data)
	for _, warning := range catalog.Warnings {
		s.Registry.Log.Warn("A part of the ConfigMap is ignored", "configMap", s.describe(), "warning", warning)
	}

	var problems Problems
	switch {
	case errors.As(err, &problems) && s.Permissive:
		for _, problem := range problems {
			s.Registry.Log.Error("A part of the ConfigMap is not served", "configMap", s.describe(), "error", problem)
		}
	case err != nil:
		return nil, fmt.Errorf("%s is not a valid catalog:\n%w", s.describe(), err)
	}

	return catalog, nil
}

// readConfigMap reads the ConfigMap from the API server.
func (s *Server) readConfigMap(ctx context.Context) (*corev1.ConfigMap, error) {
	c, err := corev1client.NewForConfig(s.Config)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.describe(), err)
	}

	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	configMap, err := c.ConfigMaps(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s does not exist: create it, or correct spec.configMap of the CatalogSource", s.describe())
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("reading %s: %w: grant the service account of this pod the right to get it", s.describe(), err)
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", s.describe(), err)
	}

	return configMap, nil
}

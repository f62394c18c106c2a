package clusterupdate

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

var clusterIDPattern = regexp.MustCompile(configv1.ClusterIDPattern)

// Init creates the ClusterVersion of a cluster without one. The cluster-version-operator
// then manages the version of the cluster.
type Init struct {
	// Client is the client of the cluster.
	Client client.Client
	// Channel is the update channel. Empty means none.
	Channel string
	// Upstream is the URL of the update service. Empty means the operator's default.
	Upstream string
	// ClusterID identifies the cluster: a UUID of version 4. Empty means a random one.
	ClusterID string
}

// Validate checks the options that do not depend on the cluster.
func (a *Init) Validate() error {
	if a.ClusterID != "" && !clusterIDPattern.MatchString(a.ClusterID) {
		return fmt.Errorf("--cluster-id %q must be a random UUID (RFC 4122, version 4)", a.ClusterID)
	}
	if a.Upstream == "" {
		return nil
	}

	address, err := url.Parse(a.Upstream)
	if err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http" {
		// The error does not repeat the value, which may contain credentials.
		return errors.New("--upstream must be a URL that begins with https:// or http://")
	}

	return nil
}

// ClusterVersion returns the ClusterVersion that Run creates. Without a ClusterID, each
// call returns a different one.
func (a *Init) ClusterVersion() (*configv1.ClusterVersion, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}

	id := a.ClusterID
	if id == "" {
		id = string(uuid.NewUUID())
	}
	return &configv1.ClusterVersion{
		TypeMeta:   metav1.TypeMeta{APIVersion: configv1.GroupVersion.String(), Kind: configv1.ClusterVersionKind},
		ObjectMeta: metav1.ObjectMeta{Name: configv1.ClusterVersionName},
		Spec:       configv1.ClusterVersionSpec{ClusterID: id, Channel: a.Channel, Upstream: a.Upstream},
	}, nil
}

// Run creates and returns the ClusterVersion. It returns an error if the ClusterVersion
// exists.
func (a *Init) Run(ctx context.Context) (*configv1.ClusterVersion, error) {
	cv, err := a.ClusterVersion()
	if err != nil {
		return nil, err
	}

	err = a.Client.Create(ctx, cv)
	switch {
	case err == nil:
		return cv, nil
	case apierrors.IsAlreadyExists(err):
		return nil, &report.Error{
			Object: clusterVersionObject, Err: &report.Reworded{Text: "it exists already", Cause: err},
			Advice: "change it with 'mainstay cluster channel' or 'kubectl edit clusterversion version'",
		}
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return nil, &report.Error{
			Object: clusterVersionObject, Err: &report.Reworded{Text: "the cluster does not know the kind ClusterVersion", Cause: err},
			Advice: "start cluster-version-operator first, which creates the kind: see 'mainstay run cluster-version-operator --help'",
		}
	case apierrors.IsForbidden(err):
		return nil, &report.Error{Object: clusterVersionObject, Err: err, Advice: "ask an administrator of the cluster for the permission, or choose another user with --context"}
	}

	return nil, &report.Error{Object: clusterVersionObject, Err: err}
}

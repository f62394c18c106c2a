// Package pull is how the servers pull images in a cluster: by the mirrors that the cluster
// declares, and with the logins that it holds.
//
// Mirrors are those of ImageDigestMirrorSets, ImageTagMirrorSets and
// ImageContentSourcePolicies, where the cluster has these kinds: they are watched, and a
// change counts at once. Logins are those of one Secret that the operator of the program
// names, and of the imagePullSecrets of the program's own ServiceAccount: they are read for
// each pull, so that one which was created late or rotated counts at once too.
//
// It decides nothing about images; pulling itself is the work of package image.
package pull

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/image"
)

// maxTransfers is how many images a server unpacks at the same time: 512 MiB of memory at worst.
// A registry that does not answer takes no place among them, because its manifest is asked for
// before.
const maxTransfers = 4

// Options configure how images are pulled.
type Options struct {
	// Images are the settings of this machine. Their Mirrors are set here.
	Images image.Options
	// Secret holds logins, as NAMESPACE/NAME. Empty: there is none.
	Secret string
}

// Puller pulls images. It is safe for concurrent use.
type Puller struct {
	images  *image.Client
	logins  *logins
	mirrors *watcher // nil: none are declared
}

// Setup makes a puller, and adds to the manager what keeps it up to date on every replica.
// The manager's scheme knows the kinds of api/config/v1 and api/operator/v1alpha1, and of
// Kubernetes' core.
func Setup(mgr ctrl.Manager, opts Options) (*Puller, error) {
	secret, err := secretKey(opts.Secret)
	if err != nil {
		return nil, err
	}

	account, err := ownAccount(mgr.GetConfig())
	if err != nil {
		return nil, err
	}

	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("setting up the watch of mirrors: %w", err)
	}

	log := mgr.GetLogger().WithName("pull")
	mirrors := newWatcher(mgr.GetCache(), served, mgr.GetEventRecorder("mainstay-mirrors"), log)
	if err := mgr.Add(mirrors); err != nil {
		return nil, fmt.Errorf("setting up the watch of mirrors: %w", err)
	}

	opts.Images.Mirrors = mirrors.Rules
	if opts.Images.Transfers == 0 {
		opts.Images.Transfers = maxTransfers
	}

	return &Puller{
		images: image.NewClient(opts.Images), mirrors: mirrors,
		logins: &logins{reader: mgr.GetAPIReader(), secret: secret, account: account, log: log},
	}, nil
}

// secretKey reads NAMESPACE/NAME.
func secretKey(text string) (client.ObjectKey, error) {
	if text == "" {
		return client.ObjectKey{}, nil
	}

	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return client.ObjectKey{}, fmt.Errorf("--pull-secret: %q is not NAMESPACE/NAME", text)
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}

// Client returns a client that has the logins of this moment. It waits until the mirrors are
// known, so that no image is pulled from where it must not be.
func (p *Puller) Client(ctx context.Context) (*image.Client, error) {
	if err := p.waitForMirrors(ctx); err != nil {
		return nil, err
	}

	configs, err := p.logins.read(ctx)
	if err != nil || len(configs) == 0 {
		return p.images, err
	}
	return p.images.WithCredentials(configs...)
}

// ClientWith returns a client that has the logins of the given Secrets, and of no Secret of the
// program. It is for images that somebody else names, who must not see what only the program may
// pull. A Secret that does not exist holds no login. It waits for the mirrors as Client does.
func (p *Puller) ClientWith(ctx context.Context, secrets ...client.ObjectKey) (*image.Client, error) {
	if err := p.waitForMirrors(ctx); err != nil {
		return nil, err
	}

	var configs [][]byte
	for _, key := range secrets {
		config, err := p.logins.readSecret(ctx, key)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		configs = append(configs, config)
	}

	return p.images.WithCredentials(configs...)
}

func (p *Puller) waitForMirrors(ctx context.Context) error {
	if p.mirrors == nil {
		return nil
	}
	if err := p.mirrors.Wait(ctx); err != nil {
		return errors.Join(errors.New("the mirrors that the cluster declares are not known yet"), err)
	}
	return nil
}

// Resolve returns a reference with the digest that it has now.
func (p *Puller) Resolve(ctx context.Context, ref string) (string, error) {
	c, err := p.Client(ctx)
	if err != nil {
		return "", err
	}
	return c.Resolve(ctx, ref)
}

// Pull opens an image.
func (p *Puller) Pull(ctx context.Context, ref string) (*image.Image, error) {
	c, err := p.Client(ctx)
	if err != nil {
		return nil, err
	}
	return c.Pull(ctx, ref)
}

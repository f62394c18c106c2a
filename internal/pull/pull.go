// Package pull pulls images in a cluster, with the mirrors that the cluster declares and
// the logins that it holds.
//
// Mirrors are declared by ImageDigestMirrorSets, ImageTagMirrorSets and
// ImageContentSourcePolicies, if the cluster serves these kinds. They are watched, so a
// change takes effect immediately. Logins are those of one Secret that the administrator
// names, and of the imagePullSecrets of the program's own service account. They are read
// for each pull, so created and rotated Secrets take effect immediately too.
//
// Package image does the pulling.
package pull

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/image"
)

// maxTransfers is how many images a server unpacks at the same time, which takes 512 MiB of memory
// at worst. A registry that does not answer does not count, because its manifest is requested
// before.
const maxTransfers = 4

// Options are the options of a Puller.
type Options struct {
	// Images are the options of the image client. Their Mirrors are set by Setup.
	Images image.Options
	// Secret is the Secret with logins, as NAMESPACE/NAME. Empty means none.
	Secret string
}

// Puller pulls images. It is safe for concurrent use.
type Puller struct {
	images  *image.Client
	options image.Options // those of images
	logins  *logins
	mirrors *mirrorWatcher // nil if no mirrors are watched
}

// Setup returns a puller, and adds its runnables to the manager. They run on every replica. The
// manager's scheme must have the kinds of api/config/v1, api/operator/v1alpha1 and the Kubernetes
// core.
func Setup(mgr ctrl.Manager, opts Options) (*Puller, error) {
	registerMetrics()

	secret, err := parseSecretKey(opts.Secret)
	if err != nil {
		return nil, err
	}

	account, err := ownServiceAccount(mgr.GetConfig())
	if err != nil {
		return nil, err
	}

	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("setting up the watch of mirrors: %w", err)
	}

	log := mgr.GetLogger().WithName("pull")
	mirrors := newMirrorWatcher(mgr.GetCache(), served, mgr.GetEventRecorder("mainstay-mirrors"), log)
	if err := mgr.Add(mirrors); err != nil {
		return nil, fmt.Errorf("setting up the watch of mirrors: %w", err)
	}

	opts.Images.Mirrors = mirrors.Rules
	if opts.Images.MaxTransfers == 0 {
		opts.Images.MaxTransfers = maxTransfers
	}

	return &Puller{
		images: image.NewClient(opts.Images), options: opts.Images, mirrors: mirrors,
		logins: &logins{reader: mgr.GetAPIReader(), secret: secret, account: account, log: log},
	}, nil
}

// WithLimits returns a puller with other limits of images, which uses the same mirrors and logins. Its transfers are counted
// separately, so that neither puller waits for the images of the other.
func (p *Puller) WithLimits(limits image.Limits) *Puller {
	derived := *p
	derived.options.Limits = limits
	derived.images = image.NewClient(derived.options)
	return &derived
}

// parseSecretKey parses NAMESPACE/NAME.
func parseSecretKey(text string) (client.ObjectKey, error) {
	if text == "" {
		return client.ObjectKey{}, nil
	}

	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return client.ObjectKey{}, fmt.Errorf("--pull-secret: %q is not NAMESPACE/NAME", text)
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}

// Client returns a client with the current logins. It waits until the mirrors are known, so that
// no image is pulled from a source that must not be contacted.
func (p *Puller) Client(ctx context.Context) (*image.Client, error) {
	if err := p.waitForMirrors(ctx); err != nil {
		return nil, err
	}

	configs, err := p.logins.readAllConfigs(ctx)
	if err != nil || len(configs) == 0 {
		return p.images, err
	}
	return p.images.WithCredentials(configs...)
}

// ClientWith returns a client with the logins of the given Secrets only. It is for images that
// users name, who must not see images that only the program may pull. A Secret that does not exist
// has no logins. ClientWith waits for the mirrors as Client does.
func (p *Puller) ClientWith(ctx context.Context, secrets ...client.ObjectKey) (*image.Client, error) {
	if err := p.waitForMirrors(ctx); err != nil {
		return nil, err
	}

	configs, err := p.logins.readConfigs(ctx, secrets)
	if err != nil {
		return nil, err
	}
	return p.images.WithOnlyCredentials(configs...)
}

// ClientAlsoWith returns a client with the current logins of the program and those of the given
// Secrets, which take precedence. It is for images that administrators name. Otherwise it is as
// ClientWith.
func (p *Puller) ClientAlsoWith(ctx context.Context, secrets ...client.ObjectKey) (*image.Client, error) {
	if err := p.waitForMirrors(ctx); err != nil {
		return nil, err
	}

	configs, err := p.logins.readConfigs(ctx, secrets)
	if err != nil {
		return nil, err
	}
	own, err := p.logins.readAllConfigs(ctx)
	if err != nil {
		return nil, err
	}
	if configs = append(configs, own...); len(configs) == 0 {
		return p.images, nil
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

// Resolve returns a reference with its current digest.
func (p *Puller) Resolve(ctx context.Context, ref string) (string, error) {
	c, err := p.Client(ctx)
	if err != nil {
		return "", err
	}
	return c.Resolve(ctx, ref)
}

// Pull pulls an image.
func (p *Puller) Pull(ctx context.Context, ref string) (*image.Image, error) {
	c, err := p.Client(ctx)
	if err != nil {
		return nil, err
	}
	return c.Pull(ctx, ref)
}

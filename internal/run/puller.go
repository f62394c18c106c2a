package run

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/image"
)

// puller pulls images with the logins of a Secret, which is read each time: it may be
// created late, and changes when its logins are rotated.
type puller struct {
	images *image.Client
	reader client.Reader
	// secret holds the logins. The zero value means that there is none.
	secret client.ObjectKey
}

// puller makes the puller that the flags ask for.
func (o *options) puller(reader client.Reader) (*puller, error) {
	p := &puller{reader: reader, images: image.NewClient(image.Options{
		RegistriesConf: o.registriesConf, PolicyFile: o.signaturePolicy, CADir: o.casDir, AuthFile: o.authFile,
	})}
	if o.pullSecret == "" {
		return p, nil
	}
	namespace, name, ok := strings.Cut(o.pullSecret, "/")
	if !ok || namespace == "" || name == "" {
		return nil, fmt.Errorf("--pull-secret: %q is not NAMESPACE/NAME", o.pullSecret)
	}
	p.secret = client.ObjectKey{Namespace: namespace, Name: name}
	return p, nil
}

// Client gives a client that has the logins.
func (p *puller) Client(ctx context.Context) (*image.Client, error) {
	if p.secret.Name == "" {
		return p.images, nil
	}
	var secret corev1.Secret
	if err := p.reader.Get(ctx, p.secret, &secret); err != nil {
		return nil, fmt.Errorf("reading the pull secret %s: %w", p.secret, err)
	}
	data, ok := secret.Data[corev1.DockerConfigJsonKey]
	if !ok {
		data, ok = secret.Data[corev1.DockerConfigKey]
	}
	if !ok {
		return nil, fmt.Errorf("the pull secret %s has neither %s nor %s", p.secret, corev1.DockerConfigJsonKey, corev1.DockerConfigKey)
	}
	c, err := p.images.WithCredentials(data)
	if err != nil {
		return nil, fmt.Errorf("the pull secret %s: %w", p.secret, err)
	}
	return c, nil
}

// Resolve gives a reference with the digest that it has now.
func (p *puller) Resolve(ctx context.Context, ref string) (string, error) {
	c, err := p.Client(ctx)
	if err != nil {
		return "", err
	}
	return c.Resolve(ctx, ref)
}

// Pull opens an image.
func (p *puller) Pull(ctx context.Context, ref string) (*image.Image, error) {
	c, err := p.Client(ctx)
	if err != nil {
		return nil, err
	}
	return c.Pull(ctx, ref)
}

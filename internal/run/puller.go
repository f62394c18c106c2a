package run

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// newTenantPuller returns a puller for images that tenants of the cluster specify. It has no own registry
// credentials.
func (o *options) newTenantPuller(mgr ctrl.Manager, limits image.Limits) (*pull.Puller, error) {
	return pull.Setup(mgr, pull.Options{Images: image.Options{
		RegistriesConf: o.images.registriesConf, PolicyFile: o.images.signaturePolicy, CADir: o.images.casDir, Limits: limits,
	}})
}

// newPuller returns the puller that the flags configure.
func (o *options) newPuller(mgr ctrl.Manager) (*pull.Puller, error) {
	return pull.Setup(mgr, pull.Options{
		Images: image.Options{
			RegistriesConf: o.images.registriesConf, PolicyFile: o.images.signaturePolicy, CADir: o.images.casDir, AuthFile: o.images.authFile,
		},
		Secret: o.images.pullSecret,
	})
}

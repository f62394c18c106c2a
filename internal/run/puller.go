package run

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// tenantPuller returns a puller of images that tenants of the cluster name. It has no login of its own.
func (o *options) tenantPuller(mgr ctrl.Manager, limits image.Limits) (*pull.Puller, error) {
	return pull.Setup(mgr, pull.Options{Images: image.Options{
		RegistriesConf: o.registriesConf, PolicyFile: o.signaturePolicy, CADir: o.casDir, Limits: limits,
	}})
}

// puller makes the puller that the flags ask for.
func (o *options) puller(mgr ctrl.Manager) (*pull.Puller, error) {
	return pull.Setup(mgr, pull.Options{
		Images: image.Options{
			RegistriesConf: o.registriesConf, PolicyFile: o.signaturePolicy, CADir: o.casDir, AuthFile: o.authFile,
		},
		Secret: o.pullSecret,
	})
}

package run

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/pull"
)

// newPuller returns the puller that the flags configure.
func (o *options) newPuller(mgr ctrl.Manager) (*pull.Puller, error) {
	return pull.Setup(mgr, pull.Options{
		Images: image.Options{
			RegistriesConf: o.images.registriesConf, PolicyFile: o.images.signaturePolicy, CADir: o.images.casDir, AuthFile: o.images.authFile,
		},
		Secret: o.images.pullSecret,
	})
}

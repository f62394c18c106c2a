package env

import (
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Issuer is an identity provider that the API server trusts.
type Issuer struct {
	// URL is the https URL of the provider, and CA the PEM certificate of its authority.
	URL string
	CA  []byte
	// ClientID is the audience of accepted tokens.
	ClientID string
	// UserClaim and GroupsClaim are the claims with the name and the groups of the user.
	UserClaim, GroupsClaim string
}

// trustedIssuer is set by TrustIssuer.
var trustedIssuer *Issuer

// TrustIssuer makes the API server accept tokens of an identity provider. TestMain calls it before Run. The API server
// reads the provider's keys in the background, so the first tokens may be refused. It is started for this test binary even
// if others could be borrowed, because its flags differ.
func TrustIssuer(issuer Issuer) { trustedIssuer = &issuer }

// trustIssuer adds the flags for the issuer.
func trustIssuer(environment *envtest.Environment, folder string) error {
	if trustedIssuer == nil {
		return nil
	}

	ca := filepath.Join(folder, "issuer-ca.crt")
	environment.ControlPlane.GetAPIServer().Configure().
		Set("oidc-issuer-url", trustedIssuer.URL).
		Set("oidc-client-id", trustedIssuer.ClientID).
		Set("oidc-username-claim", trustedIssuer.UserClaim).
		Set("oidc-groups-claim", trustedIssuer.GroupsClaim).
		Set("oidc-ca-file", ca)
	return os.WriteFile(ca, trustedIssuer.CA, 0o600)
}

package hub

import "slices"

// annotationTokenAuthPrefix and the key of a cloud are the annotation of versions that support its short-lived credentials.
const annotationTokenAuthPrefix = annotationFeaturePrefix + "token-auth-"

// tokenAuthFeatures are the infrastructure features by the key of their cloud.
var tokenAuthFeatures = map[string]string{
	"aws": "Short-lived credentials (AWS)", "azure": "Short-lived credentials (Azure)", "gcp": "Short-lived credentials (Google Cloud)",
}

// parseTokenAuth returns the sorted keys of the clouds whose short-lived credentials annotations declare as supported.
func parseTokenAuth(annotations map[string]string) []string {
	var clouds []string
	for cloud := range tokenAuthFeatures {
		if annotations[annotationTokenAuthPrefix+cloud] == "true" {
			clouds = append(clouds, cloud)
		}
	}
	slices.Sort(clouds)
	return clouds
}

// CloudConfig is the configuration of a cluster that decides how its components sign in to its cloud. Fields are empty if
// the cluster has no such configuration, or if it is unknown.
type CloudConfig struct {
	// Platform is the cloud: status.platformStatus.type of the Infrastructure.
	Platform string
	// ServiceAccountIssuer is the issuer of tokens that the cloud trusts: spec.serviceAccountIssuer of the Authentication.
	ServiceAccountIssuer string
	// CredentialsMode is Manual if no component creates long-lived credentials: spec.credentialsMode of the CloudCredential.
	CredentialsMode string
}

// platformClouds are the keys of clouds by the type of their platform.
var platformClouds = map[string]string{"AWS": "aws", "Azure": "azure", "GCP": "gcp"}

// TokenAuthCloud returns the key of the cloud whose short-lived credentials the cluster uses. It returns an empty text if it
// uses none.
func (c CloudConfig) TokenAuthCloud() string {
	if c.ServiceAccountIssuer == "" || c.CredentialsMode != "Manual" {
		return ""
	}
	return platformClouds[c.Platform]
}

// HasTokenAuth reports whether the package supports the short-lived credentials of a cloud.
func (s *PackageSummary) HasTokenAuth() bool { return len(s.tokenAuth) > 0 }

// AddTokenAuth adds the feature of a cloud, of which the cluster uses the short-lived credentials, if the package supports them.
func (s *PackageSummary) AddTokenAuth(cloud string) {
	s.Features = withTokenAuth(s.Features, s.tokenAuth, cloud)
}

// AddTokenAuth adds the feature of a cloud, of which the cluster uses the short-lived credentials, to the package and to the
// versions that support them.
func (d *PackageDetails) AddTokenAuth(cloud string) {
	d.PackageSummary.AddTokenAuth(cloud)
	for i := range d.Releases {
		r := &d.Releases[i]
		r.Features = withTokenAuth(r.Features, r.TokenAuth, cloud)
	}
}

// withTokenAuth returns sorted features with that of a cloud if it is a supported one. It does not change the list, which
// users share.
func withTokenAuth(features, supported []string, cloud string) []string {
	if !slices.Contains(supported, cloud) {
		return features
	}
	return slices.Sorted(slices.Values(append(slices.Clone(features), tokenAuthFeatures[cloud])))
}

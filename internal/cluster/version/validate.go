package version

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/capability"
)

// reasonInvalid is the reason of the Invalid condition, and of Progressing while the spec is
// invalid.
const reasonInvalid = "InvalidClusterVersion"

var uuidPattern = regexp.MustCompile(configv1.ClusterIDPattern)

// validateSpec returns a copy of the ClusterVersion without the invalid fields of its spec, and
// their errors. It does not repeat the validation of the API server.
func validateSpec(cv *configv1.ClusterVersion) (*configv1.ClusterVersion, field.ErrorList) {
	valid := cv.DeepCopy()
	spec := field.NewPath("spec")
	var specErrs field.ErrorList
	if upstream := cv.Spec.Upstream; upstream != "" {
		if parsed, err := url.ParseRequestURI(upstream); err != nil || parsed.Host == "" {
			// The value may hold credentials, so it is not repeated.
			specErrs = append(specErrs, field.Invalid(spec.Child("upstream"), field.OmitValueType{}, "must be a valid URL or empty"))
			valid.Spec.Upstream = ""
		}
	}

	if !uuidPattern.MatchString(cv.Spec.ClusterID) {
		specErrs = append(specErrs, field.Invalid(spec.Child("clusterID"), cv.Spec.ClusterID, "must be a random UUID (RFC 4122, version 4)"))
		valid.Spec.ClusterID = ""
	}
	if err := validateDesiredUpdate(cv, spec.Child("desiredUpdate")); err != nil {
		specErrs = append(specErrs, err)
		valid.Spec.DesiredUpdate = nil
	}

	return valid, specErrs
}

// validateCapabilities returns an error for each requested capability that the cluster does not
// know with its enabled feature gates. Such a capability is not enabled.
func validateCapabilities(spec *configv1.ClusterVersionCapabilitiesSpec, gates sets.Set[string]) field.ErrorList {
	path := field.NewPath("spec", "capabilities", "additionalEnabledCapabilities")
	var specErrs field.ErrorList
	for _, name := range capability.DisabledByGates(spec, gates) {
		specErrs = append(specErrs, field.Forbidden(path, fmt.Sprintf("the capability %s needs a feature gate that is not enabled", name)))
	}
	return specErrs
}

func validateDesiredUpdate(cv *configv1.ClusterVersion, path *field.Path) *field.Error {
	update := cv.Spec.DesiredUpdate
	switch {
	case update == nil:
		return nil
	case namesNoRelease(update) && len(update.AcceptRisks) > 0:
		return nil
	case namesNoRelease(update):
		return field.Required(path, "must specify architecture, version, or image")
	}

	if update.Version != "" {
		if _, err := semver.Parse(update.Version); err != nil {
			return field.Invalid(path.Child("version"), update.Version, "must be a semantic version (1.2.3[-prerelease][+build])")
		}
	}

	if update.Image != "" {
		return nil
	}

	switch len(matchingUpdates(cv, *update)) {
	case 1:
		return nil
	case 0:
		if isKnownVersion(cv.Status, update.Version) {
			return nil
		}
		return field.Invalid(path.Child("version"), update.Version, "when image is empty the update must be an available update")
	default:
		return field.Invalid(path.Child("version"), update.Version, "there are multiple possible payloads for this version, specify the exact image")
	}
}

// namesNoRelease reports whether an update states neither architecture, version nor image.
func namesNoRelease(update *configv1.Update) bool {
	return update.Architecture == "" && update.Version == "" && update.Image == ""
}

// matchingUpdates returns the available updates that match an update without an image, one per
// image.
func matchingUpdates(cv *configv1.ClusterVersion, update configv1.Update) []configv1.Release {
	seen := map[string]bool{}
	var releases []configv1.Release
	for _, release := range cv.Status.AvailableUpdates {
		fits := update.Architecture == "" || release.Architecture == update.Architecture
		if release.Version == update.Version && release.Image != "" && fits && !seen[release.Image] {
			seen[release.Image] = true
			releases = append(releases, release)
		}
	}

	return releases
}

// isKnownVersion reports whether the cluster is or was at a version. Requesting it again changes
// nothing.
func isKnownVersion(status configv1.ClusterVersionStatus, version string) bool {
	if status.Desired.Version == version {
		return true
	}

	for _, entry := range status.History {
		if entry.Version == version {
			return true
		}
	}
	return false
}

// invalidSpecMessage returns the message of the Invalid condition.
func invalidSpecMessage(specErrs field.ErrorList) string {
	const start = "The cluster version is invalid:"
	if len(specErrs) == 1 {
		return fmt.Sprintf("%s %v", start, specErrs[0])
	}

	lines := []string{start}
	for _, err := range specErrs {
		lines = append(lines, "* "+err.Error())
	}

	return strings.Join(lines, "\n")
}

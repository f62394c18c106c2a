package resolve

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// deprecationSeparator separates the messages of one condition.
const deprecationSeparator = ";"

// DeprecationConditions returns the four deprecation conditions of an extension, in the
// order Deprecated, PackageDeprecated, ChannelDeprecated, BundleDeprecated. The channels
// are those that the extension requests; bundle is the name of its bundle. Deprecated is
// true when one of the others is, and joins their messages. A false condition has an
// empty message.
//
// Only type, status, reason and message are set. Nil deprecations mean that nothing is
// deprecated. An empty bundle name matches no deprecation.
func DeprecationConditions(deprecations *fbc.Deprecations, channels []string, bundle string) []metav1.Condition {
	var packages, ofChannels, bundles []string
	if deprecations != nil {
		for _, e := range deprecations.Entries {
			switch name := e.Reference.Name; {
			case e.Reference.Schema == fbc.SchemaPackage:
				packages = append(packages, e.Message)
			case e.Reference.Schema == fbc.SchemaChannel && slices.Contains(channels, name):
				ofChannels = append(ofChannels, e.Message)
			case e.Reference.Schema == fbc.SchemaBundle && bundle != "" && name == bundle:
				bundles = append(bundles, e.Message)
			}
		}
	}

	return []metav1.Condition{
		newDeprecationCondition(olmv1.TypeDeprecated, slices.Concat(packages, ofChannels, bundles)),
		newDeprecationCondition(olmv1.TypePackageDeprecated, packages),
		newDeprecationCondition(olmv1.TypeChannelDeprecated, ofChannels),
		newDeprecationCondition(olmv1.TypeBundleDeprecated, bundles),
	}
}

// newDeprecationCondition returns a condition that is true when messages has an element,
// even an empty one.
func newDeprecationCondition(conditionType string, messages []string) metav1.Condition {
	status := metav1.ConditionFalse
	if len(messages) > 0 {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{
		Type:    conditionType,
		Status:  status,
		Reason:  olmv1.ReasonDeprecated,
		Message: strings.Join(messages, deprecationSeparator),
	}
}

package resolve

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// deprecationSeparator stands between the messages of one condition.
const deprecationSeparator = ";"

// DeprecationConditions decides the four deprecation conditions of an extension, in
// the order Deprecated, PackageDeprecated, ChannelDeprecated, BundleDeprecated:
// channels are those that the extension asks for, bundle is the one it is about. Each
// of the last three is reported by itself; Deprecated is true when one of them is, and
// carries all their messages. One that is false has an empty message.
//
// Only type, status, reason and message are set. A nil deprecations means that nothing
// is deprecated, an empty bundle that there is none.
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
		deprecationCondition(olmv1.TypeDeprecated, slices.Concat(packages, ofChannels, bundles)),
		deprecationCondition(olmv1.TypePackageDeprecated, packages),
		deprecationCondition(olmv1.TypeChannelDeprecated, ofChannels),
		deprecationCondition(olmv1.TypeBundleDeprecated, bundles),
	}
}

// deprecationCondition is true when there is a message, be it an empty one.
func deprecationCondition(conditionType string, messages []string) metav1.Condition {
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

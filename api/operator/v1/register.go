package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MachineConfigurationKind is the kind of this group and version.
const MachineConfigurationKind = "MachineConfiguration"

// MachineConfigurationName is the name of the one object that counts.
const MachineConfigurationName = "cluster"

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "operator.openshift.io", Version: "v1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &MachineConfiguration{}, &MachineConfigurationList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MachineConfiguration says what changes of nodes' configurations ask of the nodes, where that is
// not a drain and a reboot. The object "cluster" counts, and no other.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=machineconfigurations
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="there is one MachineConfiguration, whose name is cluster"
type MachineConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec MachineConfigurationSpec `json:"spec"`
}

// MachineConfigurationList is a list of MachineConfigurations.
// +kubebuilder:object:root=true
type MachineConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MachineConfiguration `json:"items"`
}

// MachineConfigurationSpec is the desired state of a MachineConfiguration.
type MachineConfigurationSpec struct {
	// managementState has no meaning here: nodes are always managed.
	// +kubebuilder:validation:Pattern=`^(Managed|Unmanaged|Force|Removed)$`
	// +optional
	ManagementState string `json:"managementState,omitempty"`
	// logLevel has no meaning here.
	// +optional
	LogLevel string `json:"logLevel,omitempty"`
	// operatorLogLevel has no meaning here.
	// +optional
	OperatorLogLevel string `json:"operatorLogLevel,omitempty"`
	// nodeDisruptionPolicy is what changes ask of a node. It is added to what is known by
	// default, and counts before that. Changes that nothing is said of ask for a drain and a
	// reboot.
	// +optional
	NodeDisruptionPolicy NodeDisruptionPolicy `json:"nodeDisruptionPolicy,omitempty"`
}

// NodeDisruptionPolicy is what changes of files, units and SSH keys ask of a node.
type NodeDisruptionPolicy struct {
	// files are files and folders, by their paths. Of several that a file is or lies in, the
	// longest counts.
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Files []NodeDisruptionPolicyFile `json:"files,omitempty"`
	// units are systemd units, by their names.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Units []NodeDisruptionPolicyUnit `json:"units,omitempty"`
	// sshkey is of the SSH keys of all users. Unset means that nothing is done.
	// +optional
	SSHKey *NodeDisruptionPolicySSHKey `json:"sshkey,omitempty"`
}

// NodeDisruptionPolicyFile is what a change of a file asks for.
type NodeDisruptionPolicyFile struct {
	// path of a file, or of a folder with all that lies below it.
	// +kubebuilder:validation:Pattern=`^/.`
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Path string `json:"path"`
	// actions are done in this order.
	// +required
	Actions NodeDisruptionPolicyActions `json:"actions"`
}

// NodeDisruptionPolicyUnit is what a change of a unit, or of its drop-ins, asks for.
type NodeDisruptionPolicyUnit struct {
	// name of the unit, with its suffix.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +required
	Name string `json:"name"`
	// actions are done in this order.
	// +required
	Actions NodeDisruptionPolicyActions `json:"actions"`
}

// NodeDisruptionPolicySSHKey is what a change of SSH keys asks for.
type NodeDisruptionPolicySSHKey struct {
	// actions are done in this order.
	// +required
	Actions NodeDisruptionPolicyActions `json:"actions"`
}

// NodeDisruptionPolicyActions are actions in their order.
//
// +listType=atomic
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=10
// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !self.exists(a, a.type in ['None', 'Reboot'])",message="None and Reboot stand alone"
type NodeDisruptionPolicyActions []NodeDisruptionPolicyAction

// Types of actions.
const (
	// ActionNone means that nothing is done.
	ActionNone = "None"
	// ActionDrain means that pods are moved away before the change.
	ActionDrain = "Drain"
	// ActionReload means that a unit reads its configuration again.
	ActionReload = "Reload"
	// ActionRestart means that a unit is started again.
	ActionRestart = "Restart"
	// ActionDaemonReload means that systemd reads the files of all units again.
	ActionDaemonReload = "DaemonReload"
	// ActionReboot means that pods are moved away, and the node starts again.
	ActionReboot = "Reboot"
)

// NodeDisruptionPolicyAction is one thing that is done on a node.
//
// +kubebuilder:validation:XValidation:rule="has(self.reload) == (self.type == 'Reload')",message="reload is required when type is Reload, and not allowed otherwise"
// +kubebuilder:validation:XValidation:rule="has(self.restart) == (self.type == 'Restart')",message="restart is required when type is Restart, and not allowed otherwise"
type NodeDisruptionPolicyAction struct {
	// type is None, Drain, Reload, Restart, DaemonReload or Reboot.
	// +kubebuilder:validation:Enum=None;Drain;Reload;Restart;DaemonReload;Reboot
	// +required
	Type string `json:"type"`
	// reload names the unit that reads its configuration again.
	// +optional
	Reload *NodeDisruptionPolicyService `json:"reload,omitempty"`
	// restart names the unit that is started again.
	// +optional
	Restart *NodeDisruptionPolicyService `json:"restart,omitempty"`
}

// NodeDisruptionPolicyService names a unit.
type NodeDisruptionPolicyService struct {
	// serviceName is the name of the unit, with its suffix.
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9:_.\\][a-zA-Z0-9:_.\\@-]*\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$`
	// +kubebuilder:validation:MaxLength=255
	// +required
	ServiceName string `json:"serviceName"`
}

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MachineConfiguration configures the actions after changes of nodes' configurations, where the
// default of a drain and a reboot is not required. Only the object named "cluster" is used.
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
	// managementState is ignored: nodes are always managed.
	// +kubebuilder:validation:Pattern=`^(Managed|Unmanaged|Force|Removed)$`
	// +optional
	ManagementState string `json:"managementState,omitempty"`
	// logLevel is ignored.
	// +optional
	LogLevel string `json:"logLevel,omitempty"`
	// operatorLogLevel is ignored.
	// +optional
	OperatorLogLevel string `json:"operatorLogLevel,omitempty"`
	// nodeDisruptionPolicy determines the actions on a node after changes. It is merged with the
	// default policy and takes precedence over it. All other changes require a drain and a
	// reboot.
	// +optional
	NodeDisruptionPolicy NodeDisruptionPolicy `json:"nodeDisruptionPolicy,omitempty"`
}

// NodeDisruptionPolicy determines the actions after changes of files, units and SSH keys.
type NodeDisruptionPolicy struct {
	// files are policies for files and directories by path. If several paths match a file, the
	// longest one applies.
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Files []NodeDisruptionPolicyFile `json:"files,omitempty"`
	// units are policies for systemd units by name.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Units []NodeDisruptionPolicyUnit `json:"units,omitempty"`
	// sshkey is the policy for the SSH keys of all users. When unset no action is taken.
	// +optional
	SSHKey *NodeDisruptionPolicySSHKey `json:"sshkey,omitempty"`
}

// NodeDisruptionPolicyFile determines the actions after a change of a file.
type NodeDisruptionPolicyFile struct {
	// path of a file, or of a directory including its content.
	// +kubebuilder:validation:Pattern=`^/.`
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Path string `json:"path"`
	// actions are executed in this order.
	// +required
	Actions NodeDisruptionPolicyActions `json:"actions"`
}

// NodeDisruptionPolicyUnit determines the actions after a change of a unit or its drop-ins.
type NodeDisruptionPolicyUnit struct {
	// name of the unit, with its suffix.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +required
	Name string `json:"name"`
	// actions are executed in this order.
	// +required
	Actions NodeDisruptionPolicyActions `json:"actions"`
}

// NodeDisruptionPolicySSHKey determines the actions after a change of SSH keys.
type NodeDisruptionPolicySSHKey struct {
	// actions are executed in this order.
	// +required
	Actions NodeDisruptionPolicyActions `json:"actions"`
}

// NodeDisruptionPolicyActions are actions in the order of execution.
//
// +listType=atomic
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=10
// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !self.exists(a, a.type in ['None', 'Reboot'])",message="None and Reboot stand alone"
type NodeDisruptionPolicyActions []NodeDisruptionPolicyAction

// Types of actions.
const (
	// ActionNone does nothing.
	ActionNone = "None"
	// ActionDrain drains the node before the change.
	ActionDrain = "Drain"
	// ActionReload reloads a unit.
	ActionReload = "Reload"
	// ActionRestart restarts a unit.
	ActionRestart = "Restart"
	// ActionDaemonReload reloads the files of all units in systemd.
	ActionDaemonReload = "DaemonReload"
	// ActionReboot drains and reboots the node.
	ActionReboot = "Reboot"
)

// NodeDisruptionPolicyAction is one action on a node.
//
// +kubebuilder:validation:XValidation:rule="has(self.reload) == (self.type == 'Reload')",message="reload is required when type is Reload, and not allowed otherwise"
// +kubebuilder:validation:XValidation:rule="has(self.restart) == (self.type == 'Restart')",message="restart is required when type is Restart, and not allowed otherwise"
type NodeDisruptionPolicyAction struct {
	// type is None, Drain, Reload, Restart, DaemonReload or Reboot.
	// +kubebuilder:validation:Enum=None;Drain;Reload;Restart;DaemonReload;Reboot
	// +required
	Type string `json:"type"`
	// reload is the unit to reload.
	// +optional
	Reload *NodeDisruptionPolicyService `json:"reload,omitempty"`
	// restart is the unit to restart.
	// +optional
	Restart *NodeDisruptionPolicyService `json:"restart,omitempty"`
}

// NodeDisruptionPolicyService refers to a unit.
type NodeDisruptionPolicyService struct {
	// serviceName is the name of the unit, with its suffix.
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9:_.\\][a-zA-Z0-9:_.\\@-]*\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$`
	// +kubebuilder:validation:MaxLength=255
	// +required
	ServiceName string `json:"serviceName"`
}

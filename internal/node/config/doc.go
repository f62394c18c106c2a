// Package config is what the operating system of a node is to be like, as values: it reads the
// Ignition configurations of MachineConfigs, merges MachineConfigs into the one rendered
// configuration of a pool, names it after its content, and says what two of them differ in and
// what the difference asks of a node.
//
// It is pure: nothing is read from a cluster, and no file is written here. Of Ignition it knows
// specification 3, bounded to what a running node can be brought to: files with their content in
// the configuration, systemd units, and SSH keys of users. The parts for the first boot of a
// machine, such as its disks, are kept and compared, never carried out.
package config

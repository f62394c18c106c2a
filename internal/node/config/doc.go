// Package config reads, validates, merges and compares the configurations of nodes, as values. It parses the Ignition
// configurations of MachineConfigs, and merges the MachineConfigs of a pool into one rendered configuration, whose name is a
// checksum of its content. It also returns what differs between two configurations, and what the difference requires of a node.
//
// It is pure: it reads no cluster and writes no file. It supports specification 3 of Ignition, limited to what can be changed on a
// running node: files whose content is in the configuration, systemd units, and SSH keys of users. The parts for the first
// boot of a machine, such as its disks, are kept and compared, but never applied.
package config

// Package daemon is machine-config-daemon, which runs on each node: it applies the desired MachineConfig to the node
// and reports which one the node has.
//
// It writes only below one folder, the root of the node (os.Root). Commands, such as a reboot, go through Host.
//
// An update is a journal on the disk of the node, and idempotent steps. A daemon that stops at any line resumes with the
// journal and reaches the same result. What it writes follows from the desired configuration and from records of the
// files that were there before, never from the progress of an earlier attempt.
//
// Each reconciliation gathers facts, decides the next step by them (decide), and executes it, until a decision ends it. Only
// execute writes.
//
// Packages rollout and drain decide which nodes update next, and drain them.
package daemon

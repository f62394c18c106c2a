// Package cincinnati is the protocol by which clusters learn which releases they can be
// updated to: it reads and writes update graphs, checks them, tells what one offers to a
// cluster, and draws them. Package graphdata makes graphs of releases and of what people
// say about them.
//
// A graph has a node for each release of a channel, edges for recommended updates, and
// conditional edges for updates with known issues. Whether an issue applies to a cluster is
// for the cluster to find out.
//
// It is pure: bytes in, values out. It asks no service and evaluates no rule.
package cincinnati

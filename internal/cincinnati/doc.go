// Package cincinnati implements the protocol by which clusters learn to which releases they can
// be updated. It parses, checks, encodes and draws update graphs, and computes the updates of a
// cluster. Package graphdata builds graphs from releases and graph-data.
//
// A graph has a node for each release of a channel, edges for recommended updates, and
// conditional edges for updates with known issues. Each cluster evaluates itself whether an
// issue applies to it.
//
// The package has no side effects. It queries no service and evaluates no rule.
package cincinnati

// Package pools decides about pools of nodes: the pool of a node, which nodes are available, which of them are updated
// next, and the status of a pool.
//
// It is pure: it takes pools and nodes and returns decisions. Package config defines configurations; packages rollout and report
// carry decisions out.
package pools

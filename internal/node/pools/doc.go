// Package pools decides about pools of nodes: which pool a node is of, which nodes are available,
// which of them are told to change next, and what a pool says of itself.
//
// It is pure: it takes pools and nodes as they stand, and gives decisions. What nodes become is
// in internal/node/config, and carrying it out in the controllers beside this package.
package pools

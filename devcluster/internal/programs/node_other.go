//go:build !linux

package programs

// nodeTable has the programs of a real node, which exist on Linux only.
var nodeTable = map[string]Program{}

//go:build !linux

package programs

// nodePrograms are the programs of a real node, by name. They exist only on Linux.
var nodePrograms = map[string]Program{}

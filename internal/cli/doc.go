// Package cli is the command line of Mainstay: cobra commands over the operations of
// internal/action, and the printing of what they give back.
//
// It holds flags, tables, trees and progress, and no behaviour of its own: whatever
// touches a cluster or a registry is an operation. The commands of the servers,
// `mainstay run`, are made elsewhere and passed in.
package cli

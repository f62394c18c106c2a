// Package cli is the command line of Mainstay: cobra commands that call the operations of
// internal/action and print their results. Each noun of the command line has its own package.
//
// It contains flags, tables, trees and progress output, and no behaviour of its own. Everything that
// reaches a cluster or a registry is an operation. The commands of the servers, `mainstay run`, are
// created elsewhere and passed in.
package cli

// Package terminal is what the command lines of Mainstay share: how a command is refused,
// what exit code it ends with, the flag -o, tables, trees and progress on a terminal, and
// which build of the program it is.
//
// It knows no commands, and nothing of a cluster: the program opm links it as well.
package terminal

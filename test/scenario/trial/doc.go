// Package trial has what scenarios share that try real packages on an embedded cluster: the
// table of outcomes, and an observer that finds what is left behind.
package trial

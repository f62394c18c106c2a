// Package trial has the code that the scenarios with real packages on an embedded cluster share: the
// table of outcomes, and an observer that finds objects that are left behind.
package trial

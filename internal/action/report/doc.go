// Package report defines how operations report to their users: progress, and errors with an
// object, a reason and advice.
//
// Packages cli and console display it.
package report

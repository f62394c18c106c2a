// Package report is what an operation tells the person who asked for it: how far it has
// come, and, when it failed, at what, why, and what to do about it.
//
// How that is shown is internal/cli's and internal/console's business.
package report

// Package action implements the operations of Mainstay's users. Each operation is a struct:
// its fields are the options, and Run executes it.
//
// Operations have no flags, serve no HTTP and print nothing. They return values, report to
// a Progress, and return a *report.Error with advice. The command line (internal/cli) and
// the console use them. They reconcile nothing: that is the task of the controllers.
//
// The folder catalog has the operations for authors and readers of catalogs, and the folder
// update those for updates of a cluster. Operations on releases are in package releases.
package action

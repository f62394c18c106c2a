// Package apply applies objects to the cluster and removes them: by server-side apply,
// phase by phase, with one rule for ownership and one for readiness.
//
// It has three layers, each of which calls the one below: an object is owned, written
// and probed; a phase is a group of objects that are written in parallel; a revision is
// a sequence of phases. Every layer returns a typed result: what was done, what is
// awaited and what failed, with messages for people.
//
// A controller decides what to apply, with which account, and when to retry. The package
// keeps no state except its Memory: every result follows from what the API server returns.
package apply

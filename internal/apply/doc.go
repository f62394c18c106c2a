// Package apply brings objects to the cluster and takes them away again: by
// server-side apply, phase after phase, with one rule for who owns an object and one
// for when it is ready.
//
// It has three layers, each asking the one below: an object is owned, written and
// probed; a phase is objects that are written side by side; a revision is phases in
// their order. Every layer answers with a typed result that says what was done, what
// is awaited and what failed, in words that a person reads.
//
// It does not choose what to apply, as whom, or when to try again: a controller does.
// It keeps no state: every answer follows from what the API server says.
package apply

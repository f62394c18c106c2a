// Package reconcile is the common part of every controller of Mainstay.
//
// A controller gathers facts, decides in a pure function, and carries the decision out:
// ObjectReconciler does this for the objects of a kind, KeyReconciler for all that belongs to a key,
// such as a namespace. This package determines when a controller runs again, writes the status with
// the resource version as precondition, handles conflicts, finalizers and events. Errors made by
// Stop, Wait and Retry say what happens next, and Conditions declares the conditions of a kind as
// data.
//
// It knows no kind.
package reconcile

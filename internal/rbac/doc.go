// Package rbac says which permissions an account needs to manage a set of objects, which
// of them it lacks, and which account has these and no others, as the RBAC authorizer of
// an API server decides.
//
// It is pure: objects, roles and bindings in, permissions out. It reads nothing from a
// cluster and changes nothing on one: a component reads the roles and bindings, and
// makes what it likes of the answer. Authorizers other than RBAC are unknown to it; what
// only they would allow is reported as missing.
package rbac

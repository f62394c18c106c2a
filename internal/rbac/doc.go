// Package rbac computes which permissions an account needs to manage a set of objects,
// which of them it lacks, and the least rules that grant them, by the rules of the RBAC
// authorizer of an API server.
//
// It is pure: objects, roles and bindings in, permissions out. It neither reads from a
// cluster nor writes to one. A component reads the roles and bindings, and decides what
// to do with the result. Authorizers other than RBAC are ignored: permissions that only
// they allow are reported as missing.
package rbac

// Package csvinfo says what a ClusterServiceVersion says of itself: the APIs that it provides and
// needs, whether it is a copy, which namespaces it can watch, which one it replaces, and the marks
// that tell its objects.
//
// It is pure, and decides nothing: how far an installation goes is decided by the csv room, which
// APIs may stand beside each other by the group room.
package csvinfo

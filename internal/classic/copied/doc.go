// Package copied is what olm-operator does with copies of ClusterServiceVersions: each namespace that an
// operator watches has one, so that the people there see what watches their objects. An OLMConfig can
// do without those of operators that watch all namespaces.
//
// There may be very many copies, all alike. Of each, only the name, and which version of it is known
// to be right, is kept in memory; one that is as it should be is never read.
package copied

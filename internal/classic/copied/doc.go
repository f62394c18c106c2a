// Package copied reconciles copied CSVs. Each namespace that an operator watches has a copy of its
// ClusterServiceVersion, so that users there see which operators watch their objects. An OLMConfig can disable
// the copies of operators that watch all namespaces.
//
// There may be very many identical copies. For each copy the package keeps only the name and the resource version
// that is known to be up to date in memory. It never reads an up-to-date copy.
package copied

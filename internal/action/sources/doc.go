// Package sources lists and changes where packages come from: ClusterCatalogs of OLM v1, CatalogSources of OLM Classic, and
// the default catalogs of an OperatorHub. It also says who may use them: OperatorGroups and the rights in their namespaces.
//
// It acts with the rights of the user. What the user may not read is part of the result.
package sources

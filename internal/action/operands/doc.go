// Package operands lists, shows, creates, edits and deletes custom resources of extensions and operators, as the user.
//
// Schemas come from the API server's OpenAPI document and kinds from its discovery, which every user may read. What an operator
// says about its kinds (descriptors, examples) comes from the ClusterServiceVersions that the user may list.
package operands

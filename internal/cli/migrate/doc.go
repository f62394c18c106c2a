// Package migrate implements `mainstay migrate`, which moves operators of OLM Classic to
// ClusterExtensions of OLM v1.
package migrate

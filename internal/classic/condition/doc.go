// Package condition reconciles OperatorConditions. Each ClusterServiceVersion has one, which its operator may
// write to report that it must not be upgraded.
//
// Setup adds the controllers. The controller of ClusterServiceVersions calls Gate before it replaces an operator.
package condition

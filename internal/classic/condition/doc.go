// Package condition is what olm-operator does with OperatorConditions: there is one for each
// ClusterServiceVersion, its operator may write it, and what it says is read by Upgradeable before the
// operator is replaced.
//
// Setup adds its controllers. Whether an operator is replaced is decided by the controller of
// ClusterServiceVersions, which calls Gate.
package condition

// Package condition reconciles OperatorConditions. Each ClusterServiceVersion has one, which its operator may
// write to report that it must not be upgraded.
//
// Setup adds the controllers. Package csv reads the OperatorCondition before it replaces an operator.
package condition

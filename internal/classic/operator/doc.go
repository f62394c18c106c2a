// Package operator reconciles Operators, which list the components of each operator.
//
// The adopter labels what belongs to a Subscription: the Subscription itself, its InstallPlan, its
// ClusterServiceVersion, and the objects that OLM installed for that. The reporter creates an
// Operator for each Subscription and lists the labelled objects in its status, also those that
// users labelled.
//
// The status needs labelled objects only: labelledObjects drops all others when it receives them. Of
// their content, componentReader keeps only the conditions.
package operator

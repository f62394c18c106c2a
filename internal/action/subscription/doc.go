// Package subscription is the life of an operator of OLM Classic for its users: install, list,
// status, explain, approve, upgrade, uninstall and the versions of its channels, without writing
// YAML.
//
// It reads the objects of OLM Classic with the rights of the user. Facts and Explain are pure and
// do not read from the cluster.
package subscription

// Package subscription reconciles the Subscriptions of OLM Classic, namespace by namespace. It sets the state
// of their catalogs, InstallPlans and operators in their statuses, resolves them, and creates the InstallPlans
// that install the chosen bundles.
//
// Package resolution chooses bundles, snapshot reads catalogs, unpack reads bundles from their images, and
// installplan executes InstallPlans.
package subscription

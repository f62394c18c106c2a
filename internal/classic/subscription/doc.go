// Package subscription looks after the Subscriptions of OLM Classic, namespace by namespace: it says in
// their status how their catalogs, InstallPlans and operators are, has operators be chosen for them, and
// makes the InstallPlans that bring what was chosen.
//
// Choosing is the resolution room's work, reading catalogs the snapshot room's, getting bundles out of
// their images the unpack room's, and executing plans the installplan room's.
package subscription

// Package daemon is what runs on each node: it brings the node to the configuration that it was
// told to have, and says of the node what it has.
//
// All that it writes lies below one folder, which stands for the root of the node; nothing leads
// out of it. What it asks of the machine beside files, such as a reboot, goes through Host.
//
// An update is a journal on the node's disk, and steps that may be repeated: where the program ends
// at any line of it, the next one goes on and comes to the same end. What is written follows from
// the wanted configuration and from a record of what was there before the daemon, never from how
// far an earlier attempt came.
//
// Whose turn it is, and moving pods away, is the business of the controllers beside this package.
package daemon

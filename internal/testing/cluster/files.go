package cluster

import "path/filepath"

// files are the paths of the files that a cluster and its servers write.
type files struct{ dir string }

// clusterDataDir returns the folder of the cluster's own state.
func (f files) clusterDataDir() string { return filepath.Join(f.dir, "cluster") }

// CA returns the file of the cluster's certificate authority.
func (f files) CA() string { return filepath.Join(f.clusterDataDir(), "pki", "ca.crt") }

// AuditLog returns the file of the API server's audit log. It needs Options.Audit.
func (f files) AuditLog() string { return filepath.Join(f.clusterDataDir(), "logs", "audit.log") }

// CertDir returns a folder of certificates with which commands trust the registry.
func (f files) CertDir() string { return filepath.Join(f.dir, "certs") }

// ServersLog returns the log file of the servers that Serve started.
func (f files) ServersLog() string { return filepath.Join(f.dir, "mainstay.log") }

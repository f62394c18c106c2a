package components

// Etcd returns the cluster's etcd. It is tuned for development: it does not sync to disk after a write. A power failure
// may lose the latest seconds; a crash or kill does not.
func (c Config) Etcd() Component {
	url := loopbackURL(c.Addresses.EtcdPort)
	// The only member never connects to its own peer address. etcd insists on a peer listener, so it gets any free port.
	const peer, listenPeer = "https://127.0.0.1:2380", "https://127.0.0.1:0"
	return Component{
		Name: "etcd", Program: "etcd", Address: url, StopGrace: stopGracePeriod,
		Ready: newHTTPSReadinessCheck(url+"/health", c.PKI.EtcdCA, &c.PKI.EtcdClient),
		Args: []string{
			"--name=devcluster",
			"--data-dir=" + c.Dir.Etcd(),
			"--listen-client-urls=" + url,
			"--advertise-client-urls=" + url,
			"--listen-peer-urls=" + listenPeer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=devcluster=" + peer,
			"--client-cert-auth",
			"--trusted-ca-file=" + c.PKI.EtcdCA.CertFile,
			"--cert-file=" + c.PKI.Etcd.CertFile,
			"--key-file=" + c.PKI.Etcd.KeyFile,
			"--peer-client-cert-auth",
			"--peer-trusted-ca-file=" + c.PKI.EtcdCA.CertFile,
			"--peer-cert-file=" + c.PKI.Etcd.CertFile,
			"--peer-key-file=" + c.PKI.Etcd.KeyFile,
			"--unsafe-no-fsync",
			"--log-level=warn",
			// A single member wins every election. The default timeout of a second would be most of the start time.
			"--heartbeat-interval=10",
			"--election-timeout=100",
		},
	}
}

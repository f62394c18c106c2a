package components

// Etcd keeps the cluster's state. It is tuned for development: it does not wait for the disk after a write, so that a power
// failure (but no crash or kill) may lose the latest seconds.
func (c Config) Etcd() Component {
	url := localURL(c.Addresses.EtcdPort)
	// The only member never calls itself by the peer address. It listens on any free port, because it insists on listening.
	const peer, listenPeer = "https://127.0.0.1:2380", "https://127.0.0.1:0"
	return Component{
		Name: "etcd", Program: "etcd", Address: url, StopGrace: stopGrace,
		Ready: answersOK(url+"/health", c.PKI.EtcdCA, &c.PKI.EtcdClient),
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
			// One member wins every election; the default of a second would be most of the start.
			"--heartbeat-interval=10",
			"--election-timeout=100",
		},
	}
}

package components

import (
	"net/netip"
)

// AuditLog is the name of the API server's audit log. It is in the same folder as the components' logs.
const AuditLog = "audit"

// AuditPolicy records the metadata of each completed request of a service account outside kube-system: the user, the
// request and the rule that allowed it. It omits bodies, so that the log contains no Secret.
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: ["system:serviceaccounts:kube-system"]
- level: Metadata
  userGroups: ["system:serviceaccounts"]
`

// APIServer returns the API server. It authorizes with RBAC and Node and runs the default admission plugins and
// NodeRestriction. It connects to aggregated API servers and webhooks through their endpoints, so that neither needs a
// kube-proxy on this machine.
func (c Config) APIServer() Component {
	url := loopbackURL(c.Addresses.APIServerPort)
	component := Component{
		Name: "kube-apiserver", Program: "kube-apiserver", Address: url, StopGrace: stopGracePeriod,
		Ready: newHTTPSReadinessCheck(url+"/readyz", c.PKI.CA, &c.PKI.Admin),
		Args: []string{
			"--bind-address=127.0.0.1",
			formatPortFlag("secure-port", c.Addresses.APIServerPort),
			"--advertise-address=" + c.Addresses.Gateway().String(), // Endpoints must not be loopback addresses.
			"--service-cluster-ip-range=" + c.Addresses.Services().String(),
			"--allow-privileged",
			"--profiling=false",

			"--etcd-servers=" + loopbackURL(c.Addresses.EtcdPort),
			"--etcd-cafile=" + c.PKI.EtcdCA.CertFile,
			"--etcd-certfile=" + c.PKI.EtcdClient.CertFile,
			"--etcd-keyfile=" + c.PKI.EtcdClient.KeyFile,

			"--tls-cert-file=" + c.PKI.APIServer.CertFile,
			"--tls-private-key-file=" + c.PKI.APIServer.KeyFile,
			"--client-ca-file=" + c.PKI.CA.CertFile,
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + c.PKI.ServiceAccounts,
			"--service-account-signing-key-file=" + c.PKI.ServiceAccounts,

			"--enable-aggregator-routing",
			"--proxy-client-cert-file=" + c.PKI.FrontProxyClient.CertFile,
			"--proxy-client-key-file=" + c.PKI.FrontProxyClient.KeyFile,
			"--requestheader-client-ca-file=" + c.PKI.FrontProxyCA.CertFile,
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",

			"--kubelet-preferred-address-types=InternalIP",
			"--kubelet-certificate-authority=" + c.PKI.CA.CertFile,
			"--kubelet-client-certificate=" + c.PKI.KubeletClient.CertFile,
			"--kubelet-client-key=" + c.PKI.KubeletClient.KeyFile,
		},
	}
	if c.Audit {
		component.Args = append(component.Args, "--audit-policy-file="+c.Dir.AuditPolicy(), "--audit-log-path="+c.Dir.Log(AuditLog))
	}

	return component
}

// ControllerManager returns the controller manager. Each controller runs as its own service account.
func (c Config) ControllerManager() Component {
	url := loopbackURL(c.Addresses.ControllerManagerPort)
	kubeconfig := c.Kubeconfig("kube-controller-manager")
	return Component{
		Name: "kube-controller-manager", Program: "kube-controller-manager", Address: url, StopGrace: stopGracePeriod,
		Ready: newSelfSignedReadinessCheck(url + "/healthz"),
		Args: []string{
			"--bind-address=127.0.0.1",
			formatPortFlag("secure-port", c.Addresses.ControllerManagerPort),
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--leader-elect=false",
			"--profiling=false",
			// With the defaults (20 and 30), creating the controllers' service accounts would take five seconds of the first start.
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
			"--use-service-account-credentials",
			"--service-account-private-key-file=" + c.PKI.ServiceAccounts,
			"--root-ca-file=" + c.PKI.CA.CertFile,
			"--cluster-signing-cert-file=" + c.PKI.CA.CertFile,
			"--cluster-signing-key-file=" + c.PKI.CA.KeyFile,
			"--cluster-name=devcluster",
		},
	}
}

// Scheduler returns the scheduler.
func (c Config) Scheduler() Component {
	url := loopbackURL(c.Addresses.SchedulerPort)
	kubeconfig := c.Kubeconfig("kube-scheduler")
	return Component{
		Name: "kube-scheduler", Program: "kube-scheduler", Address: url, StopGrace: stopGracePeriod,
		Ready: newSelfSignedReadinessCheck(url + "/readyz"),
		Args: []string{
			"--bind-address=127.0.0.1",
			formatPortFlag("secure-port", c.Addresses.SchedulerPort),
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--leader-elect=false",
			"--profiling=false",
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
		},
	}
}

// KubernetesService returns the ClusterIP of the Service "kubernetes". The API server assigns it the first address of
// the Service range.
func (c Config) KubernetesService() netip.Addr { return c.Addresses.Services().Addr().Next() }

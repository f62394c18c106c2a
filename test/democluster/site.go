package main

import (
	"errors"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/testing/site"
)

// Queries of the risks: the first one does not apply to the cluster.
const (
	queryAbsent  = "max(demo_slow_disks) > bool 0"
	queryPresent = "max(demo_old_firmware) > bool 0"
)

// openSite makes what stands around the cluster: who signs, a channel, and a risk for each update.
func openSite(dir string) (*site.Site, error) {
	s, err := site.Open(dir, "127.0.0.1", map[string]string{queryAbsent: "0", queryPresent: "1"})
	if err != nil {
		return nil, err
	}

	const risk = `to: %s
from: 1[.]0[.].*
url: https://example.com/risks/%s
name: %s
message: %s
matchingRules:
- type: PromQL
  promql:
    promql: %s
`

	return s, errors.Join(
		s.Channel(channel, first, second, third),
		s.Write("blocked-edges/slow-disks.yaml", fmt.Sprintf(risk, second, "slow-disks", "SlowDisks", "Nodes with slow disks take an hour.", queryAbsent)),
		s.Write("blocked-edges/old-firmware.yaml", fmt.Sprintf(risk, third, "old-firmware", "OldFirmware", "Nodes with old firmware do not come back.", queryPresent)),
	)
}

// setting is the MachineConfig by which the demo's releases set the content of a file of each
// node.
const (
	settingFile = "etc/platform-release"
	setting     = `apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 50-platform-release
  labels:
    machineconfiguration.openshift.io/role: master
  annotations:
    include.release.openshift.io/self-managed-high-availability: "true"
spec:
  config:
    ignition:
      version: 3.2.0
    storage:
      files:
      - path: /` + settingFile + `
        mode: 420
        overwrite: true
        contents:
          source: data:,0.0.1-snapshot
`
)

package main

import (
	"errors"
	"fmt"

	"github.com/mainstay-dev/mainstay/internal/testing/site"
)

// The queries of the risks. The first risk does not apply to the cluster.
const (
	queryAbsent  = "max(demo_slow_disks) > bool 0"
	queryPresent = "max(demo_old_firmware) > bool 0"
)

// openSite creates the external services: signatures, a channel, and a risk for each update.
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
		s.WriteChannel(updateChannel, firstVersion, secondVersion, thirdVersion),
		s.WriteGraphData("blocked-edges/slow-disks.yaml", fmt.Sprintf(risk, secondVersion, "slow-disks", "SlowDisks", "Nodes with slow disks take an hour.", queryAbsent)),
		s.WriteGraphData("blocked-edges/old-firmware.yaml", fmt.Sprintf(risk, thirdVersion, "old-firmware", "OldFirmware", "Nodes with old firmware do not come back.", queryPresent)),
	)
}

// settingManifest is the MachineConfig with which the demo's releases write a file on each node.
const (
	settingFile     = "etc/platform-release"
	settingManifest = `apiVersion: machineconfiguration.openshift.io/v1
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

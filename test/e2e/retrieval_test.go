package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// retrievalDir returns the folder of the node to which Jobs copy releases.
func (p *platformFixture) retrievalDir() string { return filepath.Join(p.dir, "releases") }

// readConfigFile reads one of the shipped files for retrieving releases by Jobs.
func (p *platformFixture) readConfigFile(name string, into any) error {
	data, err := os.ReadFile(filepath.Join(p.root, "config", "cluster-version-operator", "retrieval-job", name))
	if err != nil {
		return err
	}
	return yaml.Unmarshal([]byte(strings.ReplaceAll(string(data), "/etc/cvo/updatepayloads", p.retrievalDir())), into)
}

// retrieveByJobs makes the operator of a release retrieve the next one by a Job, as shipped
// except for the folder.
func (p *platformFixture) retrieveByJobs(deployment map[string]any) error {
	var kustomization struct {
		Patches []struct{ Patch string }
	}
	if err := p.readConfigFile("kustomization.yaml", &kustomization); err != nil {
		return err
	}

	var steps []struct {
		Op, Path string
		Value    any
	}
	if err := yaml.Unmarshal([]byte(kustomization.Patches[0].Patch), &steps); err != nil {
		return err
	}

	for _, step := range steps {
		list, ok := strings.CutSuffix(strings.TrimPrefix(step.Path, "/spec/template/spec/"), "/-")
		if step.Op != "add" || !ok {
			return fmt.Errorf("the component has the unexpected operation %s %s", step.Op, step.Path)
		}

		pod, _ := fieldAt(deployment, "spec", "template", "spec").(map[string]any)
		if of, isContainers := strings.CutPrefix(list, "containers/0/"); isContainers {
			list = of
			pod, _ = fieldAt(pod, "containers", 0).(map[string]any)
		}

		values, ok := pod[list].([]any)
		if !ok {
			return fmt.Errorf("the Deployment has no list for %s", step.Path)
		}

		pod[list] = append(values, step.Value)
	}

	container, _ := fieldAt(deployment, "spec", "template", "spec", "containers", 0).(map[string]any)
	args, _ := container["args"].([]any)
	container["args"] = append(args, "--retrieval-dir="+p.retrievalDir())

	return nil
}

// jobAccountManifest returns the manifest of the Jobs' service account.
func (p *platformFixture) jobAccountManifest() (string, error) {
	account := map[string]any{}
	if err := p.readConfigFile("service_account.yaml", &account); err != nil {
		return "", err
	}

	metadata, ok := account["metadata"].(map[string]any)
	if !ok {
		return "", errors.New("the account of Jobs has no metadata")
	}

	metadata["annotations"] = map[string]any{"include.release.openshift.io/self-managed-high-availability": "true"}
	data, err := yaml.Marshal(account)
	return string(data), err
}

var jobOfRelease = regexp.MustCompile(`^version-1\.1\.0-[0-9a-f]{10} 1$`)

// checkRetrievedByJob checks that a Job with the release image copied the release.
func (p *platformFixture) checkRetrievedByJob(ctx context.Context) error {
	jobs, err := p.listLines(ctx, "jobs", `{range .items[*]}{.metadata.name} {.status.succeeded}{"\n"}{end}`)
	if err == nil && (len(jobs) != 1 || !jobOfRelease.MatchString(jobs[0])) {
		err = fmt.Errorf("got the Jobs with their numbers of succeeded Pods %q", jobs)
	}
	return err
}

package requirements

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// checkServerVersion checks the version of the API server against minKubeVersion. It ignores the pre-release and build
// parts, because distributions add them.
func (r *Result) checkServerVersion(csv *v1alpha1.ClusterServiceVersion, cluster *ClusterState) {
	if csv.Spec.MinKubeVersion == "" {
		return
	}

	status := v1alpha1.RequirementStatus{
		Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
		Kind: v1alpha1.ClusterServiceVersionKind, Name: csv.Name,
	}
	server, err := semver.ParseTolerant(cluster.ServerVersion)
	server.Pre, server.Build = nil, nil
	least, leastErr := semver.ParseTolerant(string(csv.Spec.MinKubeVersion))
	switch {
	case cluster.ServerVersionErr != nil:
		status.Status, status.Message = v1alpha1.RequirementNotPresent, "Server version discovery error"
	case err != nil:
		status.Status, status.Message = v1alpha1.RequirementNotPresent, "Server version parsing error"
	case leastErr != nil:
		status.Status, status.Message = v1alpha1.RequirementPresentNotSatisfied, "CSV version parsing error"
	case least.GT(server):
		status.Status = v1alpha1.RequirementPresentNotSatisfied
		status.Message = fmt.Sprintf("CSV version requirement not met: minKubeVersion (%s) > server version (%s)", csv.Spec.MinKubeVersion, server)
	default:
		status.Status = v1alpha1.RequirementPresent
		status.Message = fmt.Sprintf("CSV minKubeVersion (%s) less than server version (%s)", csv.Spec.MinKubeVersion, server)
	}

	r.add(status.Status == v1alpha1.RequirementPresent, status)
}

func (r *Result) checkCRDs(csv *v1alpha1.ClusterServiceVersion, cluster *ClusterState) {
	for _, wanted := range Definitions(csv) {
		status := v1alpha1.RequirementStatus{
			Group: apiextensionsv1.GroupName, Version: "v1", Kind: "CustomResourceDefinition", Name: wanted.Name,
		}
		owned := slices.ContainsFunc(csv.Spec.CustomResourceDefinitions.Owned, func(d v1alpha1.CRDDescription) bool { return d.Name == wanted.Name })
		status.Status, status.Message, status.UUID = crdStatus(csv, cluster, wanted, owned)
		r.add(status.Status == v1alpha1.RequirementPresent, status)
	}
}

func crdStatus(csv *v1alpha1.ClusterServiceVersion, cluster *ClusterState, wanted v1alpha1.CRDDescription, owned bool) (status, message, uuid string) {
	crd := cluster.CRDs[wanted.Name]
	if crd == nil {
		return v1alpha1.RequirementNotPresent, "CRD is not present", ""
	}

	if owned {
		if others := alongsideOthers(csv, cluster, crd); len(others) > 0 {
			return v1alpha1.RequirementPresentNotSatisfied, "CRD installed alongside other CSV(s): " + strings.Join(others, ", "), ""
		}
	}

	served := slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == wanted.Version && v.Served
	})
	if !served {
		return v1alpha1.RequirementNotPresent, "CRD version not served", ""
	}

	established := slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	if !established {
		return v1alpha1.RequirementPresentNotAvailable, "CRD is present but the Established condition is False (not available)", string(crd.UID)
	}

	return v1alpha1.RequirementPresent, "CRD is present and Established condition is true", string(crd.UID)
}

// alongsideOthers returns the ClusterServiceVersions that a CRD was installed with, if one that csv replaces is among
// them and csv itself is not. Such a CRD was not updated for csv yet.
func alongsideOthers(csv *v1alpha1.ClusterServiceVersion, cluster *ClusterState, crd *apiextensionsv1.CustomResourceDefinition) []string {
	var others []string
	old := false
	for _, key := range slices.Sorted(maps.Keys(crd.Annotations)) {
		if !strings.HasPrefix(key, csvinfo.AnnotationInstalledAlongside) {
			continue
		}

		value := crd.Annotations[key]
		namespace, name, _ := strings.Cut(value, "/")
		if namespace == csv.Namespace && name == csv.Name {
			return nil
		}

		old = old || namespace == csv.Namespace && cluster.Ancestors.Has(name)
		others = append(others, value)
	}

	if !old {
		return nil
	}

	slices.Sort(others)
	return others
}

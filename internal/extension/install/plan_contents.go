package install

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/objectdiff"
	"github.com/mainstay-dev/mainstay/internal/rbac"
)

// plannedContents summarizes a first installation, whose diffs alone would be hard to read.
type plannedContents struct {
	// Kinds counts the objects of each kind.
	Kinds map[string]int `json:"kinds"`
	CRDs  []string       `json:"crds,omitempty"`
	// Rights are the rights of the bundle's service accounts.
	Rights []plannedRights `json:"rights,omitempty"`
}

// plannedRights are the rights that one binding grants.
type plannedRights struct {
	// Subjects are the kinds and names that the role is bound to.
	Subjects []string `json:"subjects"`
	// Role is the kind and name of the role.
	Role string `json:"role"`
	// Rules are those of the role. It is empty if the bundle does not contain the role.
	Rules []string `json:"rules,omitempty"`
}

// summarizeContents returns the summary of a bundle's objects.
func summarizeContents(objects []unstructured.Unstructured) *plannedContents {
	contents := &plannedContents{Kinds: map[string]int{}}
	roles := map[string][]rbacv1.PolicyRule{}
	for i := range objects {
		object := &objects[i]
		contents.Kinds[object.GetKind()]++
		switch {
		case apply.KeyOf(object).IsCRD():
			contents.CRDs = append(contents.CRDs, object.GetName())
		case isRBACVersion(object.GetAPIVersion()):
			var role rbacv1.ClusterRole // A Role has the same rules.
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err == nil {
				roles[qualifiedRoleName(object.GetKind(), object.GetNamespace(), object.GetName())] = role.Rules
			}
		}
	}

	for i := range objects {
		if object := &objects[i]; isRBACVersion(object.GetAPIVersion()) && strings.HasSuffix(object.GetKind(), "Binding") {
			contents.Rights = append(contents.Rights, summarizeBinding(object, roles))
		}
	}

	slices.Sort(contents.CRDs)
	slices.SortStableFunc(contents.Rights, func(a, b plannedRights) int { return strings.Compare(a.Role, b.Role) })
	return contents
}

// summarizeBinding returns the rights that a binding grants.
func summarizeBinding(object *unstructured.Unstructured, roles map[string][]rbacv1.PolicyRule) plannedRights {
	var binding rbacv1.ClusterRoleBinding // A RoleBinding has the same fields.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding); err != nil {
		return plannedRights{Role: object.GetKind() + " " + object.GetName() + ", which cannot be read: " + err.Error()}
	}

	rights := plannedRights{Role: binding.RoleRef.Kind + " " + binding.RoleRef.Name}
	for _, subject := range binding.Subjects {
		name := subject.Name
		if subject.Namespace != "" {
			name = subject.Namespace + "/" + name
		}
		rights.Subjects = append(rights.Subjects, subject.Kind+" "+name)
	}

	namespace := ""
	if binding.RoleRef.Kind == "Role" {
		namespace = object.GetNamespace()
	}

	for _, rule := range roles[qualifiedRoleName(binding.RoleRef.Kind, namespace, binding.RoleRef.Name)] {
		gap := rbac.Gap{Namespace: object.GetNamespace(), Rule: rule}
		rights.Rules = append(rights.Rules, gap.String())
	}

	return rights
}

func isRBACVersion(apiVersion string) bool {
	return strings.HasPrefix(apiVersion, rbacv1.GroupName+"/")
}

func qualifiedRoleName(kind, namespace, name string) string {
	return kind + " " + namespace + "/" + name
}

// writeSections writes rights, images, CRDs and object counts as text.
func (c *plannedContents) writeSections(w *strings.Builder, images []string) {
	if c == nil {
		writeTitledList(w, "Images that run:", images)
		return
	}

	var rights, counts []string
	for _, r := range c.Rights {
		rules := strings.Join(r.Rules, "\n")
		if rules == "" {
			rules = "the rules that the role has on the cluster"
		}
		rights = append(rights, fmt.Sprintf("%s, by %s:\n%s", strings.Join(r.Subjects, ", "), r.Role, rules))
	}

	for _, kind := range slices.Sorted(maps.Keys(c.Kinds)) {
		counts = append(counts, fmt.Sprintf("%s: %d", kind, c.Kinds[kind]))
	}

	writeTitledList(w, "Rights that it gets:", rights)
	writeTitledList(w, "Images that run:", images)
	writeTitledList(w, "CRDs:", c.CRDs)
	writeTitledList(w, "Objects by kind:", counts)
}

// rankForReview returns the position of a change in a review: RBAC and workloads come first. CRDs
// come last, because they are the longest.
func rankForReview(change objectdiff.Change) int {
	group, _, _ := strings.Cut(change.APIVersion, "/")
	switch {
	case isRBACVersion(change.APIVersion), change.Kind == "ServiceAccount":
		return 0
	case group == "apps", group == "batch", change.Kind == "Pod":
		return 1
	case change.Kind == "CustomResourceDefinition":
		return 3
	default:
		return 2
	}
}

// isNeverTruncated reports whether the diff of a change is kept whole: those of RBAC and workloads
// are.
func isNeverTruncated(change objectdiff.Change) bool { return rankForReview(change) <= 1 }

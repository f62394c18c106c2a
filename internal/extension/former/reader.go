package former

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
)

// LabelMigratedFromHelm is the label of a revision with the objects of a Helm release. The other
// implementation sets it too.
const LabelMigratedFromHelm = "olm.operatorframework.io/migrated-from-helm"

// The types of the Secrets of Helm releases: the first Secret of a release in several Secrets, the
// others, and the only Secret of a release as Helm itself stores it.
const (
	typeIndex   corev1.SecretType = "operatorframework.io/index.v1"
	typeChunk   corev1.SecretType = "operatorframework.io/chunk.v1"
	typeRelease corev1.SecretType = "helm.sh/release.v1"
)

// Installation is what another implementation has installed for an extension.
type Installation struct {
	// Origin describes the installation for people.
	Origin string
	// Revision is the number of the revision that takes it over.
	Revision int64
	// IsComplete reports whether it was rolled out completely.
	IsComplete bool
	// FromHelm reports whether it is a Helm release.
	FromHelm bool
	// Facts are the annotations of the bundle, by the names that they have on a ClusterObjectSet.
	Facts   map[string]string
	Objects []unstructured.Unstructured
}

// Reader reads the installations of another implementation.
type Reader struct {
	// Reader reads from the API server.
	Reader client.Reader
	// SystemNamespace holds the Secrets of Helm releases.
	SystemNamespace string
}

// ReadInstallation returns what another implementation has installed for an extension. It returns nil
// if that is nothing.
func (r *Reader) ReadInstallation(ctx context.Context, ext *olmv1.ClusterExtension) (*Installation, error) {
	sets, err := r.ListRevisions(ctx, ext)
	if err != nil {
		return nil, err
	}
	if installation, err := newFromRevisions(sets); err != nil || installation != nil {
		return installation, err
	}
	return r.readRelease(ctx, ext)
}

// ListRevisions lists the ClusterExtensionRevisions of an extension, oldest first. It returns none if
// the cluster does not serve the kind.
func (r *Reader) ListRevisions(ctx context.Context, ext *olmv1.ClusterExtension) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(olmv1.GroupVersion.WithKind(apply.FormerRevisionKind + "List"))
	err := r.Reader.List(ctx, list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the ClusterExtensionRevisions of %q: %w", ext.Name, err)
	}

	own := slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool { return !metav1.IsControlledBy(&u, ext) })
	slices.SortFunc(own, func(a, b unstructured.Unstructured) int { return cmp.Compare(numberOf(&a), numberOf(&b)) })
	return own, nil
}

func numberOf(u *unstructured.Unstructured) int64 {
	number, _, _ := unstructured.NestedInt64(u.Object, "spec", "revision")
	return number
}

// newFromRevisions returns the installation of the newest active ClusterExtensionRevision that was
// rolled out completely, or of the newest active one. It returns nil if none is active.
func newFromRevisions(sets []unstructured.Unstructured) (*Installation, error) {
	var found *unstructured.Unstructured
	for i := range sets {
		state, _, _ := unstructured.NestedString(sets[i].Object, "spec", "lifecycleState")
		if state == string(olmv1.LifecycleStateArchived) || !sets[i].GetDeletionTimestamp().IsZero() {
			continue
		}
		if found == nil || hasSucceeded(&sets[i]) || !hasSucceeded(found) {
			found = &sets[i]
		}
	}
	if found == nil {
		return nil, nil
	}

	installation := &Installation{
		Origin: apply.FormerRevisionKind + " " + found.GetName(), Revision: max(1, numberOf(found)), IsComplete: hasSucceeded(found),
		Facts: newFacts(found.GetLabels(), found.GetAnnotations()),
	}
	phases, _, _ := unstructured.NestedSlice(found.Object, "spec", "phases")
	for _, phase := range phases {
		fields, _ := phase.(map[string]any)
		items, _, _ := unstructured.NestedSlice(fields, "objects")
		for _, item := range items {
			object, _ := item.(map[string]any)
			content, _ := object["object"].(map[string]any)
			u, err := newManifest(content)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", installation.Origin, err)
			}
			installation.Objects = append(installation.Objects, *u)
		}
	}
	return installation, nil
}

// hasSucceeded reports whether a ClusterExtensionRevision was rolled out completely.
func hasSucceeded(u *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(item any) bool {
		c, _ := item.(map[string]any)
		return c["type"] == olmv1.TypeSucceeded && c["status"] == string(metav1.ConditionTrue)
	})
}

// readRelease returns the installation of the newest deployed Helm release. It returns nil if there is
// none.
func (r *Reader) readRelease(ctx context.Context, ext *olmv1.ClusterExtension) (*Installation, error) {
	var secrets corev1.SecretList
	err := r.Reader.List(ctx, &secrets, client.InNamespace(r.SystemNamespace), client.MatchingLabels{"name": ext.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the Helm releases of %q: %w", ext.Name, err)
	}

	var newest *release
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if !isReleaseOf(secret, ext) {
			continue
		}
		found, err := r.loadRelease(ctx, secret)
		if err != nil {
			return nil, fmt.Errorf("reading Helm release Secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
		if found.Info.Status == statusDeployed && (newest == nil || found.Version > newest.Version) {
			newest = found
		}
	}
	if newest == nil {
		return nil, nil
	}

	objects, err := newest.decodeObjects()
	if err != nil {
		return nil, fmt.Errorf("reading version %d of the Helm release of %q: %w", newest.Version, ext.Name, err)
	}
	return &Installation{
		Origin: fmt.Sprintf("Helm release %s.v%d", ext.Name, newest.Version), Revision: 1, IsComplete: true, FromHelm: true,
		Facts: newFacts(newest.Labels), Objects: objects,
	}, nil
}

// isReleaseOf reports whether a Secret begins a Helm release of an extension. One of a former extension
// of the same name does not.
func isReleaseOf(secret *corev1.Secret, ext *olmv1.ClusterExtension) bool {
	isRelease := secret.Type == typeIndex && secret.Labels["owner"] == "operator-controller" || secret.Type == typeRelease && secret.Labels["owner"] == "helm"
	return isRelease && (metav1.GetControllerOf(secret) == nil || metav1.IsControlledBy(secret, ext))
}

// loadRelease reads the Secrets of a Helm release.
func (r *Reader) loadRelease(ctx context.Context, first *corev1.Secret) (*release, error) {
	if first.Type == typeRelease {
		return decodeRelease(first.Data["release"])
	}

	var extra []string
	if data := first.Data["extraChunks"]; len(data) > 0 {
		if err := json.Unmarshal(data, &extra); err != nil {
			return nil, errors.New("the list of its other Secrets is not valid JSON")
		}
	}
	if len(extra) >= maxChunks {
		return nil, fmt.Errorf("it has %d Secrets, more than %d", len(extra)+1, maxChunks)
	}

	joined := bytes.NewBuffer(bytes.Clone(first.Data["chunk"]))
	for _, name := range extra {
		chunk := &corev1.Secret{}
		if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: first.Namespace, Name: name}, chunk); err != nil {
			return nil, fmt.Errorf("reading its Secret %q: %w", name, err)
		}
		if chunk.Type != typeChunk || !ptr.Deref(chunk.Immutable, false) {
			return nil, fmt.Errorf("the Secret %q is not an immutable part of a release", name)
		}
		joined.Write(chunk.Data["chunk"])
	}
	return decodeRelease(joined.Bytes())
}

// factNames maps the names of the facts about a bundle to the annotations of a ClusterObjectSet.
var factNames = map[string]string{
	olmv1.AnnotationBundleName:                olmv1.AnnotationBundleName,
	olmv1.AnnotationBundleVersion:             olmv1.AnnotationBundleVersion,
	olmv1.AnnotationBundleReference:           olmv1.AnnotationBundleReference,
	olmv1.AnnotationPackageName:               olmv1.AnnotationPackageName,
	"olm.operatorframework.io/bundle-release": olmv1.AnnotationBundleRelease,
}

// newFacts returns the facts about a bundle in labels and annotations.
func newFacts(sources ...map[string]string) map[string]string {
	facts := map[string]string{}
	for _, source := range sources {
		for from, to := range factNames {
			if value := source[from]; value != "" {
				facts[to] = value
			}
		}
	}
	return facts
}

package migration

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

const (
	// LabelSnapshot is the label of the Secrets that hold snapshots, with the value true.
	LabelSnapshot = "mainstay.dev/migration-snapshot"
	// AnnotationDirection is the annotation of a snapshot that is being rolled back. Its value is
	// then DirectionClassic.
	AnnotationDirection = "mainstay.dev/migration-direction"
	// DirectionClassic means that the operator returns to OLM Classic.
	DirectionClassic = "classic"

	snapshotPrefix = "mainstay-migration-"
	snapshotKey    = "snapshot.json.gz"
	// maxSnapshotBytes limits a snapshot, uncompressed. A Secret holds 1 MiB of compressed data.
	maxSnapshotBytes = 32 << 20
)

// snapshot is what is needed to finish a migration or to return to OLM Classic. It contains no data
// of Secrets.
type snapshot struct {
	// Extension is the extension to create.
	Extension *olmv1.ClusterExtension `json:"extension"`
	// Subscription and CSV are the objects before the migration, with their UIDs and status.
	Subscription *v1alpha1.Subscription          `json:"subscription"`
	CSV          *v1alpha1.ClusterServiceVersion `json:"csv"`
	// Objects are the objects of the operator with their actions.
	Objects []plan.Object `json:"objects"`
	// Removed are the deleted objects, in their state before the deletion.
	Removed []unstructured.Unstructured `json:"removed,omitempty"`
	// Webhooks are the webhook configurations that are created with the authorities of OLM Classic.
	Webhooks []unstructured.Unstructured `json:"webhooks,omitempty"`
	// Marks are the marks of OLM Classic on the objects that stay.
	Marks []marks `json:"marks,omitempty"`

	// secret is the Secret that holds the snapshot.
	secret *corev1.Secret
}

// marks are the metadata by which OLM Classic recognizes an object.
type marks struct {
	Object      plan.Object       `json:"object"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Owned means that the object has an owner reference to the CSV.
	Owned bool `json:"owned,omitempty"`
}

func (s *snapshot) isRollingBack() bool {
	return s.secret.Annotations[AnnotationDirection] == DirectionClassic
}

func servesWebhooks(s *snapshot) bool { return len(s.CSV.Spec.WebhookDefinitions) > 0 }

// keepsCertificates reports whether the extension uses the serving Secrets of OLM Classic.
func (s *snapshot) keepsCertificates() bool {
	return s.Extension.Annotations[olmv1.AnnotationServingSecrets] == olmv1.ServingSecretsClassic
}

// changesCertificates reports whether the webhooks of the operator get new certificates.
func (s *snapshot) changesCertificates() bool { return servesWebhooks(s) && !s.keepsCertificates() }

// bundleVersion returns the version of the installed bundle.
func (s *snapshot) bundleVersion() string { return s.Extension.Spec.Source.Catalog.Version }

// listObjects returns the objects with one of the actions, except those of OLM Classic itself and
// the extension.
func (s *snapshot) listObjects(actions ...plan.Action) []plan.Object {
	var result []plan.Object
	for _, object := range s.Objects {
		group, _, _ := strings.Cut(object.APIVersion, "/")
		isClassic := group == v1alpha1.GroupVersion.Group && object.Kind != "OperatorCondition"
		if slices.Contains(actions, object.Action) && !isClassic && object.Kind != olmv1.ClusterExtensionKind {
			result = append(result, object)
		}
	}
	return result
}

func snapshotName(subscription string) string { return snapshotPrefix + subscription }

// takeSnapshot reads the objects that the migration removes, and the marks of the others.
func takeSnapshot(ctx context.Context, reader client.Reader, f *plan.Facts, p *plan.Plan) (*snapshot, error) {
	s := &snapshot{Extension: p.Extension, Subscription: f.Subscription.DeepCopy(), CSV: f.CSV.DeepCopy(), Objects: p.Objects}
	s.Subscription.ManagedFields, s.CSV.ManagedFields = nil, nil
	if s.keepsCertificates() {
		s.Webhooks = slices.DeleteFunc(plan.Rendered(f), func(u unstructured.Unstructured) bool { return !isWebhookConfiguration(&u) })
	}
	for _, object := range s.listObjects(plan.ActionRemove) {
		live := object.Reference()
		ok, err := getOptional(ctx, reader, client.ObjectKeyFromObject(live), live)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", object.Kind, object.Name, err)
		}
		if ok {
			live.SetManagedFields(nil)
			s.Removed = append(s.Removed, *live)
		}
	}

	for _, object := range s.listObjects(plan.ActionAdopt, plan.ActionKeep) {
		live := newMetadata(object)
		ok, err := getOptional(ctx, reader, client.ObjectKeyFromObject(live), live)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", object.Kind, object.Name, err)
		}
		if ok {
			s.Marks = append(s.Marks, marksOf(object, live, f.CSV))
		}
	}

	return s, nil
}

func marksOf(object plan.Object, live metav1.Object, csv *v1alpha1.ClusterServiceVersion) marks {
	m := marks{Object: object, Labels: map[string]string{}, Annotations: map[string]string{}, Owned: csvinfo.IsOwner(live.GetOwnerReferences(), csv)}
	for key, value := range live.GetLabels() {
		if isClassicLabel(key) {
			m.Labels[key] = value
		}
	}
	for key, value := range live.GetAnnotations() {
		if isClassicAnnotation(key, value, csv) {
			m.Annotations[key] = value
		}
	}
	return m
}

// isClassicLabel reports whether a label is a mark of OLM Classic.
func isClassicLabel(key string) bool {
	switch key {
	case csvinfo.LabelOwner, csvinfo.LabelOwnerNamespace, csvinfo.LabelOwnerKind, csvinfo.LabelManaged,
		csvinfo.LabelDeploymentHash, csvinfo.LabelPermissionsHash, csvinfo.LabelCopiedFrom:
		return true
	}
	return strings.HasPrefix(key, csvinfo.LabelComponent)
}

// isClassicAnnotation reports whether an annotation is a mark of the CSV on a CRD.
func isClassicAnnotation(key, value string, csv *v1alpha1.ClusterServiceVersion) bool {
	return strings.HasPrefix(key, csvinfo.AnnotationInstalledAlongside) && value == csv.Namespace+"/"+csv.Name
}

// createSecret writes the snapshot to a Secret.
func (s *snapshot) createSecret(ctx context.Context, c client.Client) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding the snapshot: %w", err)
	}

	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	_, _ = w.Write(data) // a buffer does not fail
	_ = w.Close()
	s.secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Subscription.Namespace, Name: snapshotName(s.Subscription.Name), Labels: map[string]string{LabelSnapshot: "true"},
		},
		Data: map[string][]byte{snapshotKey: compressed.Bytes()},
	}
	if err := c.Create(ctx, s.secret); err != nil {
		return newServerError("secret "+client.ObjectKeyFromObject(s.secret).String(), err)
	}

	return nil
}

// loadSnapshot returns the snapshot of a Subscription, or nil if there is none.
func loadSnapshot(ctx context.Context, reader client.Reader, subscription client.ObjectKey) (*snapshot, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: subscription.Namespace, Name: snapshotName(subscription.Name)}
	ok, err := getOptional(ctx, reader, key, secret)
	if err != nil || !ok {
		return nil, newServerError("secret "+key.String(), err)
	}
	return decodeSnapshot(secret)
}

func decodeSnapshot(secret *corev1.Secret) (*snapshot, error) {
	object := fmt.Sprintf("secret %s/%s", secret.Namespace, secret.Name)
	if secret.Labels[LabelSnapshot] != "true" {
		return nil, newServerError(object, fmt.Errorf("it is not a snapshot of a migration: the label %s is missing", LabelSnapshot))
	}

	r, err := gzip.NewReader(bytes.NewReader(secret.Data[snapshotKey]))
	if err != nil {
		return nil, newServerError(object, fmt.Errorf("decompressing the snapshot: %w", err))
	}
	data, err := io.ReadAll(io.LimitReader(r, maxSnapshotBytes))
	if err != nil {
		return nil, newServerError(object, fmt.Errorf("decompressing the snapshot: %w", err))
	}

	s := &snapshot{secret: secret}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, newServerError(object, fmt.Errorf("decoding the snapshot: %w", err))
	}
	if s.Extension == nil || s.Subscription == nil || s.CSV == nil || s.Extension.Spec.Source.Catalog == nil {
		return nil, newServerError(object, fmt.Errorf("the snapshot is incomplete"))
	}

	return s, nil
}

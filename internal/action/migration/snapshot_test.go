package migration_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action/migration"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestUnusableSnapshots creates a Secret that has the name of the snapshot and is not a snapshot. The operations
// fail before their first write.
func TestUnusableSnapshots(t *testing.T) {
	f := &fixture{Fixture: env.NewFixture(t, kinds...), name: "kiwi"}
	f.namespace = f.NewNamespace(f.name + "-")

	for name, test := range map[string]struct {
		labels map[string]string
		data   string
		want   string
	}{
		"of a user":   {nil, "anything", "it is not a snapshot"},
		"not gzip":    {map[string]string{migration.LabelSnapshot: "true"}, "damaged", "decompressing the snapshot"},
		"without any": {map[string]string{migration.LabelSnapshot: "true"}, "", "decompressing the snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "mainstay-migration-" + f.name, Labels: test.labels},
				Data:       map[string][]byte{"snapshot.json.gz": []byte(test.data)},
			}
			f.Must(f.Create(t.Context(), secret))
			version := secret.ResourceVersion

			for operation, run := range map[string]func(context.Context, client.Client) error{
				"migrate": func(ctx context.Context, c client.Client) error {
					m := f.newMigration(plan.Options{})
					m.Client = c
					return m.Run(ctx)
				},
				"roll back": func(ctx context.Context, c client.Client) error {
					r := f.newRollback(true)
					r.Client = c
					return r.Run(ctx)
				},
				"confirm": func(ctx context.Context, c client.Client) error {
					confirm := &migration.Confirm{Operation: f.newOperation()}
					confirm.Client = c
					return confirm.Run(ctx)
				},
			} {
				var err error
				if f.runProcess(0, func(ctx context.Context, c client.Client) { err = run(ctx, c) }) {
					t.Errorf("%s: got a write, want none", operation)
				}
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: got %v, want %q", operation, err, test.want)
				}
			}

			f.Must(f.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
			if secret.ResourceVersion != version {
				t.Errorf("got the Secret at version %s, want %s", secret.ResourceVersion, version)
			}
			f.Must(f.Delete(t.Context(), secret))
		})
	}
}

package impersonation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/impersonation"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

type fixture struct {
	*env.Fixture
	namespace string
	clients   *impersonation.Clients
}

func newFixture(t *testing.T, o impersonation.Options) *fixture {
	t.Helper()
	f := &fixture{Fixture: env.NewFixture(t, corev1.AddToScheme, rbacv1.AddToScheme)}
	f.namespace = f.NewNamespace("impersonation-")
	f.StartManager(env.Manager{Setup: func(mgr ctrl.Manager) error {
		var err error
		f.clients, err = impersonation.NewClients(mgr, o)
		return err
	}})
	return f
}

// createAccount creates a service account and returns it without its UID.
func (f *fixture) createAccount(name string) (impersonation.Account, *corev1.ServiceAccount) {
	f.T.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	f.CreateAll(account)
	return impersonation.Account{Namespace: f.namespace, Name: name}, account
}

func (f *fixture) clientFor(account impersonation.Account) *impersonation.Client {
	f.T.Helper()
	c, err := f.clients.For(f.T.Context(), account)
	f.Must(err)
	return c
}

// A client has the rights of its account and no others, also for objects without conversion and for metadata.
func TestClientHasRightsOfAccount(t *testing.T) {
	f := newFixture(t, impersonation.Options{})
	account, _ := f.createAccount("reader")
	role, binding := builder.Role(metav1.ObjectMeta{Namespace: f.namespace, Name: "reader"}, builder.Rules("list core configmaps"), builder.ServiceAccountSubject(f.namespace, "reader"))
	f.CreateAll(role, binding)

	c := f.clientFor(account)
	f.Eventually("the account may list ConfigMaps", func() error {
		return c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(f.namespace))
	})

	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	_, dynamicErr := c.Dynamic.Resource(secrets).Namespace(f.namespace).List(t.Context(), metav1.ListOptions{})
	_, metadataErr := c.Metadata.Resource(secrets).Namespace(f.namespace).List(t.Context(), metav1.ListOptions{})
	for client, err := range map[string]error{
		"client": c.List(t.Context(), &corev1.SecretList{}, client.InNamespace(f.namespace)), "dynamic": dynamicErr, "metadata": metadataErr,
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: listing Secrets: got error %v, want Forbidden", client, err)
		}
	}
}

// The program's own account has the rights of the manager.
func TestOwnAccount(t *testing.T) {
	f := newFixture(t, impersonation.Options{GrantRight: func(context.Context, types.NamespacedName) error {
		return errors.New("no right is needed")
	}})
	c := f.clientFor(impersonation.AccountOf(nil))
	if c != f.clients.Own() {
		t.Error("got another client than the program's own")
	}
	f.Must(c.List(t.Context(), &corev1.SecretList{}, client.InNamespace(f.namespace)))
}

// The client of a deleted account is not returned, and one that was created in its place is another account.
func TestRecreatedAccount(t *testing.T) {
	f := newFixture(t, impersonation.Options{})
	named, account := f.createAccount("installer")
	referenced := impersonation.AccountOf(&corev1.ObjectReference{Namespace: f.namespace, Name: "installer", UID: account.UID})
	before := f.clientFor(named)
	if again := f.clientFor(referenced); again != before {
		t.Error("got two clients for one account, want one")
	}

	f.Must(f.Delete(t.Context(), account))
	want := fmt.Sprintf(`installation cannot proceed due to missing ServiceAccount: create ServiceAccount "installer" in namespace "%s"`, f.namespace)
	for _, account := range []impersonation.Account{named, referenced} {
		_, err := f.clients.For(t.Context(), account)
		if !errors.Is(err, impersonation.ErrMissingAccount) || err.Error() != want {
			t.Errorf("deleted account: got error %v, want %s", err, want)
		}
	}

	_, account = f.createAccount("installer")
	if _, err := f.clients.For(t.Context(), referenced); !errors.Is(err, impersonation.ErrMissingAccount) {
		t.Errorf("reference to the deleted account: got error %v, want %v", err, impersonation.ErrMissingAccount)
	}
	after := f.clientFor(named)
	if after == before {
		t.Error("recreated account: got the client of the deleted account")
	}

	referenced.UID = account.UID
	if got := f.clientFor(referenced); got != after {
		t.Error("reference to the recreated account: got another client than by its name")
	}
}

// The right to impersonate is granted for accounts that exist, before each use.
func TestGrantRight(t *testing.T) {
	var granted []types.NamespacedName
	refusal := errors.New("refused")
	f := newFixture(t, impersonation.Options{GrantRight: func(_ context.Context, account types.NamespacedName) error {
		granted = append(granted, account)
		if len(granted) == 3 {
			return refusal
		}
		return nil
	}})
	if _, err := f.clients.For(t.Context(), impersonation.Account{Namespace: f.namespace, Name: "installer"}); !errors.Is(err, impersonation.ErrMissingAccount) {
		t.Errorf("missing account: got error %v, want %v", err, impersonation.ErrMissingAccount)
	}

	account, _ := f.createAccount("installer")
	f.clientFor(account)
	f.clientFor(account)
	if _, err := f.clients.For(t.Context(), account); !errors.Is(err, refusal) {
		t.Errorf("the rejected right: got error %v, want %v", err, refusal)
	}

	name := types.NamespacedName{Namespace: f.namespace, Name: "installer"}
	if want := []types.NamespacedName{name, name, name}; !slices.Equal(granted, want) {
		t.Errorf("got rights for %v, want %v", granted, want)
	}
}

// warningList records the warnings of the API server.
type warningList struct {
	mu    sync.Mutex
	texts []string
}

func (w *warningList) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func TestWarnings(t *testing.T) {
	warnings := &warningList{}
	f := newFixture(t, impersonation.Options{Warnings: warnings})
	container := corev1.Container{Name: "main", Image: "registry.example.com/main", Env: []corev1.EnvVar{{Name: "A"}, {Name: "A"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "warned"}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}
	f.Must(f.clients.Own().Create(t.Context(), pod, client.DryRunAll))
	if len(warnings.texts) == 0 {
		t.Error("the handler got no warning of the API server")
	}
}

func TestCheckAccount(t *testing.T) {
	f := newFixture(t, impersonation.Options{})
	account, created := f.createAccount("installer")
	f.Must(impersonation.CheckAccount(t.Context(), f, account))
	account.UID = created.UID
	f.Must(impersonation.CheckAccount(t.Context(), f, account))

	account.UID = "other"
	want := fmt.Sprintf(`installation cannot proceed due to missing ServiceAccount: ServiceAccount "%s/installer" with UID other was deleted, and one with UID %s was created in its place`, f.namespace, created.UID)
	if err := impersonation.CheckAccount(t.Context(), f, account); !errors.Is(err, impersonation.ErrMissingAccount) || err.Error() != want {
		t.Errorf("other UID: got error %v, want %s", err, want)
	}
}

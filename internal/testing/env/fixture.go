package env

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// WaitTimeout limits every wait of a test. No test is about time, so it is far above what a busy
// machine needs.
const WaitTimeout = 5 * time.Minute

// pollInterval is the interval between two checks of Eventually.
const pollInterval = 20 * time.Millisecond

// Fixture is an administrator's client of the API server, with what most tests do with it. The
// fixtures of packages embed it.
type Fixture struct {
	client.Client
	// T is the test. Failures and cleanups belong to it.
	T testing.TB
}

// NewFixture returns a fixture for a test. add are functions that register types in its scheme.
func NewFixture(t testing.TB, add ...func(*runtime.Scheme) error) *Fixture {
	t.Helper()
	connection := Start(t)
	connection.QPS = -1
	c, err := client.New(connection, client.Options{Scheme: Scheme(t, add...)})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}

	return &Fixture{Client: c, T: t}
}

// Must fails the test if there is an error.
func (f *Fixture) Must(err error) {
	f.T.Helper()
	if err != nil {
		f.T.Fatal(err)
	}
}

// Eventually waits until check returns nil. The test fails with the last error if it never does.
func (f *Fixture) Eventually(what string, check func() error) {
	f.T.Helper()
	Eventually(f.T, what, check)
}

// EventuallyTrue waits until a condition holds. If it never does, the test fails with the text of
// describe, unless that is nil.
func (f *Fixture) EventuallyTrue(what string, holds func() bool, describe func() string) {
	f.T.Helper()
	EventuallyTrue(f.T, what, holds, describe)
}

// EventuallyTrue waits until a condition holds. If it never does, the test fails with the text of
// describe, unless that is nil.
func EventuallyTrue(t testing.TB, what string, holds func() bool, describe func() string) {
	t.Helper()
	Eventually(t, what, func() error {
		switch {
		case holds():
			return nil
		case describe == nil:
			return errors.New("the condition does not hold")
		default:
			return errors.New(describe())
		}
	})
}

// Eventually waits until check returns nil. The test fails with the last error if it never does. It also waits in
// cleanups, where the context of the test is done.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(WaitTimeout)
	for {
		err := check()
		switch {
		case err == nil:
			return
		case time.Now().After(deadline):
			t.Fatalf("%s: within %s: %v", what, WaitTimeout, err)
		}

		time.Sleep(pollInterval)
	}
}

// CreateAll creates objects.
func (f *Fixture) CreateAll(objects ...client.Object) {
	f.T.Helper()
	for _, object := range objects {
		if err := f.Create(f.T.Context(), object); err != nil {
			f.T.Fatalf("creating %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// EnsureNamespace creates a namespace unless it exists.
func (f *Fixture) EnsureNamespace(name string) {
	f.T.Helper()
	f.Must(client.IgnoreAlreadyExists(f.Create(f.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
}

// NewNamespace creates a namespace with a unique name that starts with a prefix, and returns it.
func (f *Fixture) NewNamespace(prefix string) string {
	f.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	f.Must(f.Create(f.T.Context(), namespace))
	return namespace.Name
}

// Manager describes the manager of a program in a test.
type Manager struct {
	// Roles is the file of the roles that the program is shipped with, see ConfigWithRoles. Empty
	// means the rights of an administrator.
	Roles string
	// Connect changes the connection, for example to count requests. It may be nil.
	Connect func(*rest.Config)
	// Options are the options of the manager. The scheme defaults to that of the fixture.
	Options ctrl.Options
	// Setup adds the controllers.
	Setup func(ctrl.Manager) error
}

// StartManager runs a manager until stop is called or the test ends, with the rights that the
// program is shipped with. A test may start several.
func (f *Fixture) StartManager(m Manager) (mgr manager.Manager, stop func()) {
	f.T.Helper()
	connection := Start(f.T)
	if m.Roles != "" {
		connection = ConfigWithRoles(f.T, m.Roles)
	}
	connection.QPS = -1
	if m.Connect != nil {
		m.Connect(connection)
	}

	options := m.Options
	if options.Scheme == nil {
		options.Scheme = f.Scheme()
	}
	options.Metrics = server.Options{BindAddress: "0"}
	options.Controller.SkipNameValidation = ptr.To(true)
	mgr, err := ctrl.NewManager(connection, options)
	if err != nil {
		f.T.Fatalf("making a manager: %v", err)
	}
	if err := m.Setup(mgr); err != nil {
		f.T.Fatalf("setting up the controllers: %v", err)
	}

	return mgr, StartManager(f.T, mgr)
}

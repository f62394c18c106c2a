package env

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/poll"
)

// WaitTimeout limits every wait of a test.
const WaitTimeout = poll.Timeout

// Fixture is an administrator's client of the API server, with the helpers that most tests need. The
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

// Eventually waits until check returns nil, see poll.Eventually.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	poll.Eventually(t, what, check)
}

// EventuallyTrue waits until a condition holds, see poll.EventuallyTrue.
func EventuallyTrue(t testing.TB, what string, holds func() bool, describe func() string) {
	t.Helper()
	poll.EventuallyTrue(t, what, holds, describe)
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

// CreateConfig creates the objects of files, unless they exist. The paths are relative to the folder config of the
// repository.
func (f *Fixture) CreateConfig(paths ...string) {
	f.T.Helper()
	root, err := checkout.Root()
	f.Must(err)

	for _, path := range paths {
		data, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(path)))
		f.Must(err)
		for document := range bytes.SplitSeq(append([]byte("\n"), data...), []byte("\n---\n")) {
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
				f.T.Fatalf("reading config/%s: %v", path, err)
			}
			if len(object.Object) == 0 {
				continue // It has only comments.
			}
			if err := f.Create(f.T.Context(), object); client.IgnoreAlreadyExists(err) != nil {
				f.T.Fatalf("creating %s %s of config/%s: %v", object.GetKind(), object.GetName(), path, err)
			}
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
	connection := f.connectManager(m)
	options := m.Options
	if options.Scheme == nil {
		options.Scheme = f.Scheme()
	}
	mgr, err := NewManager(connection, options, m.Setup)
	f.Must(err)

	return mgr, StartManager(f.T, mgr)
}

// NewManager returns a manager with the controllers that setup adds. Several may run in one test binary: it serves no
// metrics, and names of controllers may be repeated. It does not limit the rate of requests.
func NewManager(connection *rest.Config, options ctrl.Options, setup func(ctrl.Manager) error) (manager.Manager, error) {
	connection = rest.CopyConfig(connection)
	connection.QPS = -1
	options.Metrics = server.Options{BindAddress: "0"}
	options.Controller.SkipNameValidation = ptr.To(true)
	mgr, err := ctrl.NewManager(connection, options)
	if err != nil {
		return nil, fmt.Errorf("making a manager: %w", err)
	}
	if err := setup(mgr); err != nil {
		return nil, fmt.Errorf("setting up the controllers: %w", err)
	}

	return mgr, nil
}

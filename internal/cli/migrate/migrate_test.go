package migrate_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/migration"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/cli/migrate"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// sources serves the sample operator.
type sources struct{}

func (sources) Offers(_ context.Context, packageName, _ string) ([]plan.Offer, error) {
	if packageName != "hello-operator" {
		return nil, nil
	}
	return []plan.Offer{{Catalog: "sample", Image: "quay.io/example/hello:v1.0.0", DefaultChannel: "stable", Channels: []string{"stable"}}}, nil
}

func (sources) Open(context.Context, string) (*bundle.Bundle, error) {
	return bundle.Load(os.DirFS("../../../examples/bundles/hello-operator/1.0.0"))
}

// runCommand runs a command line and returns its output and its exit code.
func runCommand(t *testing.T, config func() (*rest.Config, error), line string) (string, int) {
	t.Helper()
	cmd := migrate.NewCommand(migrate.Options{
		Config: config,
		Sources: func(*rest.Config, string, catalogs.Registry, report.Progress) (migration.Catalogs, migration.Bundles) {
			return sources{}, sources{}
		},
	})
	var out bytes.Buffer
	root := terminal.ConfigureRoot(cmd)
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(strings.Fields(line))
	code := terminal.Execute(t.Context(), root)
	return out.String(), code
}

func TestUsage(t *testing.T) {
	noCluster := func() (*rest.Config, error) { return nil, errors.New("no cluster") }
	for line, want := range map[string]string{
		"subscription":                              "either NAME or --all is required",
		"subscription a":                            "--namespace is required",
		"subscription a --all":                      "exclude each other",
		"subscription a b":                          "unexpected argument",
		"subscription a -n b --acknowledge x":       `there is no finding "x"`,
		"subscription a -n b --rollback --confirm":  "exclude each other; give one of them",
		"subscription --all --rollback":             "exclude each other; give one of them",
		"subscription a -n b --acknowledge restart": "no cluster",
		"subscription a -n b --rollback --acknowledge installed-extension": "no cluster",
	} {
		got, code := runCommand(t, noCluster, line)
		if code != 1 || !strings.Contains(got, want) {
			t.Errorf("%s: got exit code %d and %q, want 1 and %q", line, code, got, want)
		}
	}
}

// TestDocumentedCommands checks that the commands on the page about migration are valid.
func TestDocumentedCommands(t *testing.T) {
	page, err := os.ReadFile("../../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(page)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "mainstay migrate ")
		if !ok {
			continue
		}
		count++
		got, _ := runCommand(t, func() (*rest.Config, error) { return nil, errors.New("no cluster") }, command)
		if got != "Error: no cluster\n" {
			t.Errorf("%s: got %q, want a valid command", command, got)
		}
	}
	if count < 5 {
		t.Errorf("got %d commands on the page, want at least 5", count)
	}
	for _, name := range plan.Acknowledgements {
		if !strings.Contains(string(page), "| `"+string(name)+"` |") {
			t.Errorf("the page does not explain the acknowledgement %s", name)
		}
	}
}

func TestPlan(t *testing.T) {
	c := env.Client(t, corev1.AddToScheme, v1alpha1.AddToScheme, operatorsv1.AddToScheme, olmv1.AddToScheme)
	b, err := sources{}.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "greetings", Name: b.CSV.Name, Annotations: b.CSV.Annotations}, Spec: b.CSV.Spec}
	csv.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{Name: "tea", Group: "tea.example.com", Version: "v1", Kind: "Tea", DeploymentName: "hello-operator"}}
	now := metav1.Now()
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "greetings", Name: "group"}}
	hello := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "greetings", Name: "hello"},
		Spec:       v1alpha1.SubscriptionSpec{CatalogSource: "sample", CatalogSourceNamespace: "greetings", Package: "hello-operator", InstallPlanApproval: v1alpha1.ApprovalManual},
	}
	other := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "greetings", Name: "other"},
		Spec:       v1alpha1.SubscriptionSpec{CatalogSource: "sample", CatalogSourceNamespace: "greetings", Package: "other"},
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "greetings"}}
	for _, create := range []func() error{
		func() error { return c.Create(t.Context(), namespace) },
		func() error { return c.Create(t.Context(), csv) },
		func() error { return c.Create(t.Context(), group) },
		func() error { return c.Create(t.Context(), hello) },
		func() error { return c.Create(t.Context(), other) },
		func() error {
			csv.Status.Phase = v1alpha1.CSVPhaseSucceeded
			return c.Status().Update(t.Context(), csv)
		},
		func() error {
			group.Status = operatorsv1.OperatorGroupStatus{Namespaces: []string{""}, LastUpdated: &now}
			return c.Status().Update(t.Context(), group)
		},
		func() error {
			hello.Status = v1alpha1.SubscriptionStatus{InstalledCSV: csv.Name, State: v1alpha1.SubscriptionStateAtLatest, LastUpdated: now}
			return c.Status().Update(t.Context(), hello)
		},
	} {
		if err := create(); err != nil {
			t.Fatal(err)
		}
	}

	config := func() (*rest.Config, error) { return env.Start(t), nil }
	for name, test := range map[string]struct {
		line string
		code int
	}{
		"plan.txt":    {"subscription hello -n greetings --dry-run", 1},
		"refused.txt": {"subscription hello -n greetings", 1},
		"plan.yaml":   {"subscription hello -n greetings --dry-run -o yaml", 1},
		"fleet.txt":   {"subscription --all -n greetings --dry-run", 0},
		"none.txt":    {"subscription hello -n greetings --rollback", 1},
	} {
		got, code := runCommand(t, config, test.line)
		if code != test.code {
			t.Errorf("%s: got exit code %d, want %d", test.line, code, test.code)
		}
		golden.Check(t, name, []byte(got))
	}
}

// TestCatalogs creates the ClusterCatalogs for CatalogSources. The second run finds them.
func TestCatalogs(t *testing.T) {
	c := env.Client(t, corev1.AddToScheme, v1alpha1.AddToScheme, olmv1.AddToScheme)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "orchard"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	sources := []*v1alpha1.CatalogSource{
		{ObjectMeta: metav1.ObjectMeta{Name: "apples"}, Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Image: "quay.io/example/apples:v1", Secrets: []string{"login"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "pears"}, Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Image: "quay.io/example/apples:v1"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "short"}, Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Image: "no-registry:v1"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "stones"}, Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: "stones:50051"}},
	}
	versions := map[string]string{}
	for _, source := range sources {
		source.Namespace = namespace.Name
		if err := c.Create(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		versions[source.Name] = source.ResourceVersion
	}

	config := func() (*rest.Config, error) { return env.Start(t), nil }
	for _, test := range []struct {
		name, line string
		code       int
	}{
		{"catalogs-plan.txt", "catalogs -n orchard --dry-run", 0},
		{"catalogs.txt", "catalogs -n orchard", 1},
		{"catalogs-again.txt", "catalogs -n orchard --dry-run", 0},
	} {
		got, code := runCommand(t, config, test.line)
		if code != test.code {
			t.Errorf("%s: got exit code %d, want %d", test.line, code, test.code)
		}
		golden.Check(t, test.name, []byte(got))
	}

	var list olmv1.ClusterCatalogList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Name != "apples" || list.Items[0].Annotations[plan.AnnotationMigratedFromCatalog] != "orchard/apples" {
		t.Errorf("got the ClusterCatalogs %+v, want only that of orchard/apples", list.Items)
	}
	for _, source := range sources {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(source), source); err != nil || source.ResourceVersion != versions[source.Name] {
			t.Errorf("CatalogSource %s: got version %s and %v, want it unchanged at %s", source.Name, source.ResourceVersion, err, versions[source.Name])
		}
	}
}

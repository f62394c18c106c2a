package marketplace

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// sources returns entries from words: +name enables a catalog, and -name disables it.
func sources(words string) []configv1.HubSource {
	var list []configv1.HubSource
	for _, word := range strings.Fields(words) {
		list = append(list, configv1.HubSource{Name: word[1:], Disabled: word[0] == '-'})
	}
	return list
}

func TestIsSourceDisabled(t *testing.T) {
	for _, c := range []struct {
		all     bool
		sources string
		want    bool
	}{
		{false, "", false}, {true, "", true},
		{false, "-a", true}, {true, "+a", false},
		{false, "+a", false}, {true, "-a", true},
		{false, "-b", false}, {true, "+b", true},
		{false, "-a +a", false}, {false, "+a -a", true},
	} {
		spec := &configv1.OperatorHubSpec{DisableAllDefaultSources: c.all, Sources: sources(c.sources)}
		if got := isSourceDisabled(spec, "a"); got != c.want {
			t.Errorf("all disabled=%t, %q: got disabled %t of a", c.all, c.sources, got)
		}
	}
}

func TestIsDefaultCatalog(t *testing.T) {
	marked, plain := &v1alpha1.CatalogSource{}, &v1alpha1.CatalogSource{}
	marked.Name, plain.Name = "a", "a"
	marked.Annotations = map[string]string{annotationManagedBy: managedBy}
	for name, c := range map[string]struct {
		status  string // entries as of sources
		catalog *v1alpha1.CatalogSource
		want    bool
	}{
		"was on":                 {"+a", plain, true},
		"was on, marked":         {"+a", marked, true},
		"was off":                {"-a", plain, false},
		"was off, a marked copy": {"-a", marked, false},
		"no entry, marked":       {"+b", marked, true},
		"no entry":               {"", plain, false},
	} {
		var status configv1.OperatorHubStatus
		for _, s := range sources(c.status) {
			status.Sources = append(status.Sources, configv1.HubSourceStatus{Name: s.Name, Disabled: s.Disabled})
		}
		if got := isDefaultCatalog(&status, c.catalog); got != c.want {
			t.Errorf("%s: got owned %t", name, got)
		}
	}
}

func TestNewHubStatus(t *testing.T) {
	cause := errors.New("the API server does not answer")
	for name, c := range map[string]struct {
		all     bool
		sources string
		before  string
		failed  map[string]error
		want    string
	}{
		"all on":               {false, "", "", nil, "+a Success|+b Success"},
		"all off":              {true, "", "", nil, "-a Success|-b Success"},
		"one on":               {true, "+b", "", nil, "-a Success|+b Success"},
		"no default":           {false, "-x -x", "", nil, "+a Success|+b Success|-x Error There is no default catalog with this name: the default catalogs are a, b"},
		"not created":          {false, "", "", map[string]error{"a": cause}, "+a Error " + cause.Error() + "|+b Success"},
		"not created, was off": {false, "", "-a", map[string]error{"a": cause}, "-a Error " + cause.Error() + "|+b Success"},
		"not removed":          {true, "", "", map[string]error{"a": cause}, "+a Error " + cause.Error() + "|-b Success"},
		"not removed, again":   {true, "", "+a -b", map[string]error{"a": cause}, "+a Error " + cause.Error() + "|-b Success"},
	} {
		hub := &configv1.OperatorHub{Spec: configv1.OperatorHubSpec{DisableAllDefaultSources: c.all, Sources: sources(c.sources)}}
		for _, s := range sources(c.before) {
			hub.Status.Sources = append(hub.Status.Sources, configv1.HubSourceStatus{Name: s.Name, Disabled: s.Disabled})
		}

		var lines []string
		for _, s := range newHubStatus(hub, []string{"a", "b"}, c.failed).Sources {
			sign := "+"
			if s.Disabled {
				sign = "-"
			}
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s%s %s %s", sign, s.Name, s.Status, s.Message)))
		}

		if diff := cmp.Diff(c.want, strings.Join(lines, "|")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRestoreDefault(t *testing.T) {
	base, err := parseDefault([]byte(manifest("a", "")), "market")
	if err != nil {
		t.Fatal(err)
	}

	template := base.DeepCopy()
	template.Annotations[v1alpha1.AnnotationCatalogImageTemplate] = "registry.example.com/a:v{kube_minor_version}"
	for name, c := range map[string]struct {
		want *v1alpha1.CatalogSource
		edit func(*v1alpha1.CatalogSource)
		is   bool
	}{
		"the same":     {base, func(*v1alpha1.CatalogSource) {}, false},
		"more labels":  {base, func(c *v1alpha1.CatalogSource) { c.Labels = map[string]string{"mine": "yes"} }, false},
		"the status":   {base, func(c *v1alpha1.CatalogSource) { c.Status.Message = "?" }, false},
		"the image":    {base, func(c *v1alpha1.CatalogSource) { c.Spec.Image = "other" }, true},
		"a pod config": {base, func(c *v1alpha1.CatalogSource) { c.Spec.GrpcPodConfig = &v1alpha1.GrpcPodConfig{} }, true},
		"the mark":     {base, func(c *v1alpha1.CatalogSource) { c.Annotations = nil }, true},
		"a template":   {template, func(c *v1alpha1.CatalogSource) { c.Spec.Image = "registry.example.com/a:v36" }, false},
	} {
		is := c.want.DeepCopy()
		c.edit(is)
		if got := restoreDefault(is, c.want); got != c.is {
			t.Errorf("%s: got changed %t", name, got)
		}
		if restoreDefault(is, c.want) {
			t.Errorf("%s: the second call changed it", name)
		}
	}
}

// The cases are an existing or missing catalog of a default that is enabled or disabled.
func TestDecideChanges(t *testing.T) {
	want := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kitchen", Annotations: map[string]string{annotationManagedBy: managedBy}}}
	want.Spec.Image = "registry.example.com/kitchen:v1"
	defaults := &defaultCatalogs{catalogs: map[string]*v1alpha1.CatalogSource{"kitchen": want}}
	newCatalog := func(edit func(*v1alpha1.CatalogSource)) *v1alpha1.CatalogSource {
		c := want.DeepCopy()
		edit(c)
		return c
	}
	same := newCatalog(func(*v1alpha1.CatalogSource) {})
	edited := newCatalog(func(c *v1alpha1.CatalogSource) { c.Spec.Image = "other" })
	deleted := newCatalog(func(c *v1alpha1.CatalogSource) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	own := newCatalog(func(c *v1alpha1.CatalogSource) { c.Annotations = nil })
	newHub := func(disabled bool) *configv1.OperatorHub {
		return &configv1.OperatorHub{Spec: configv1.OperatorHubSpec{DisableAllDefaultSources: disabled}}
	}
	for name, c := range map[string]struct {
		disabled, enabledLately bool
		catalog                 *v1alpha1.CatalogSource
		want                    catalogAction
	}{
		"a missing catalog":                    {want: createCatalog},
		"a catalog like the default":           {catalog: same},
		"an edited catalog":                    {catalog: edited, want: updateCatalog},
		"a catalog that is being deleted":      {catalog: deleted},
		"a disabled catalog that is missing":   {disabled: true},
		"a disabled catalog":                   {disabled: true, catalog: same, want: deleteCatalog},
		"a default that has just been enabled": {disabled: true, enabledLately: true, catalog: same},
		"a user's catalog instead":             {disabled: true, catalog: own},
		"a disabled catalog being deleted":     {disabled: true, catalog: deleted},
	} {
		t.Run(name, func(t *testing.T) {
			f := &facts{hub: newHub(c.disabled), latest: newHub(c.disabled && !c.enabledLately), catalogs: map[string]*v1alpha1.CatalogSource{}}
			if c.catalog != nil {
				f.catalogs["kitchen"] = c.catalog
			}
			var got catalogAction
			for _, change := range decideChanges(defaults, f) {
				got += change.action
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

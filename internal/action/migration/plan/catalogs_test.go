package plan

import (
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

func newSource(namespace, name, image string, edit ...func(*v1alpha1.CatalogSourceSpec)) v1alpha1.CatalogSource {
	source := v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Image: image},
	}
	for _, change := range edit {
		change(&source.Spec)
	}
	return source
}

func pollEvery(interval string) func(*v1alpha1.CatalogSourceSpec) {
	return func(s *v1alpha1.CatalogSourceSpec) {
		s.UpdateStrategy = &v1alpha1.UpdateStrategy{RegistryPoll: &v1alpha1.RegistryPoll{Interval: interval}}
	}
}

const fruitImage, otherImage = "quay.io/example/fruit:v1", "quay.io/example/other:v1"

// TestCatalogNames checks which CatalogSources get a ClusterCatalog, and its name.
func TestCatalogNames(t *testing.T) {
	existing := func(name, image string) olmv1.ClusterCatalog {
		c := olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Spec.Source.Image = &olmv1.ImageSource{Ref: image}
		return c
	}
	for name, test := range map[string]struct {
		sources  []v1alpha1.CatalogSource
		existing []olmv1.ClusterCatalog
		// want are the CatalogSources with their actions and ClusterCatalogs.
		want []string
	}{
		"one":       {[]v1alpha1.CatalogSource{newSource("a", "fruit", fruitImage)}, nil, []string{"a/fruit create fruit"}},
		"one image": {[]v1alpha1.CatalogSource{newSource("b", "fruit", fruitImage), newSource("a", "pears", fruitImage)}, nil, []string{"a/pears create pears", "b/fruit use pears"}},
		"one name, two images": {
			[]v1alpha1.CatalogSource{newSource("b", "fruit", otherImage), newSource("a", "fruit", fruitImage)}, nil,
			[]string{"a/fruit create fruit-a", "b/fruit create fruit-b"},
		},
		"one name, one image": {[]v1alpha1.CatalogSource{newSource("b", "fruit", fruitImage), newSource("a", "fruit", fruitImage)}, nil, []string{"a/fruit create fruit", "b/fruit use fruit"}},
		"the image is served": {[]v1alpha1.CatalogSource{newSource("a", "fruit", fruitImage)}, []olmv1.ClusterCatalog{existing("mine", fruitImage)}, []string{"a/fruit use mine"}},
		"the name is taken":   {[]v1alpha1.CatalogSource{newSource("a", "fruit", fruitImage)}, []olmv1.ClusterCatalog{existing("fruit", otherImage)}, []string{"a/fruit create fruit-a"}},
		"both names are taken": {
			[]v1alpha1.CatalogSource{newSource("a", "fruit", fruitImage)}, []olmv1.ClusterCatalog{existing("fruit", otherImage), existing("fruit-a", "quay.io/example/third:v1")},
			[]string{"a/fruit create fruit-a-2"},
		},
		"a ConfigMap": {[]v1alpha1.CatalogSource{newSource("a", "fruit", "", func(s *v1alpha1.CatalogSourceSpec) { s.SourceType = v1alpha1.SourceTypeConfigmap })}, nil, []string{"a/fruit skip "}},
		"internal":    {[]v1alpha1.CatalogSource{newSource("a", "fruit", "", func(s *v1alpha1.CatalogSourceSpec) { s.SourceType = v1alpha1.SourceTypeInternal })}, nil, []string{"a/fruit skip "}},
		"an address":  {[]v1alpha1.CatalogSource{newSource("a", "fruit", "", func(s *v1alpha1.CatalogSourceSpec) { s.Address = "fruit:50051" })}, nil, []string{"a/fruit skip "}},
		"a skipped one of the same name": {
			[]v1alpha1.CatalogSource{newSource("a", "fruit", fruitImage), newSource("b", "fruit", "", func(s *v1alpha1.CatalogSourceSpec) { s.Address = "fruit:50051" })}, nil,
			[]string{"a/fruit create fruit", "b/fruit skip "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range NewCatalogs(test.sources, test.existing) {
				got = append(got, p.Source+" "+string(p.Action)+" "+p.Catalog)
				if p.Action == CatalogSkip && !strings.Contains(strings.Join(p.Notes, " "), "create a ClusterCatalog") {
					t.Errorf("got the notes %q, want advice", p.Notes)
				}
				if (p.Create != nil) != (p.Action == CatalogCreate) {
					t.Errorf("%s: got the ClusterCatalog %v for the action %s", p.Source, p.Create, p.Action)
				}
			}
			expectEqual(t, "catalogs", got, test.want)
		})
	}
}

// TestCatalogContent checks the fields of a ClusterCatalog.
func TestCatalogContent(t *testing.T) {
	const digest = "quay.io/example/fruit@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, test := range map[string]struct {
		image    string
		edit     func(*v1alpha1.CatalogSourceSpec)
		minutes  *int32
		priority int32
		// note is a part of the only note. Empty means no note.
		note string
	}{
		"plain":                {image: fruitImage, edit: func(*v1alpha1.CatalogSourceSpec) {}},
		"ten minutes":          {image: fruitImage, edit: pollEvery("10m"), minutes: ptr.To[int32](10)},
		"a part of a minute":   {image: fruitImage, edit: pollEvery("10m5s"), minutes: ptr.To[int32](11)},
		"less than a minute":   {image: fruitImage, edit: pollEvery("20s"), minutes: ptr.To[int32](1)},
		"an invalid interval":  {image: fruitImage, edit: pollEvery("often"), minutes: ptr.To[int32](15)},
		"a digest":             {image: digest, edit: pollEvery("10m"), note: "no effect on a digest"},
		"a priority":           {image: fruitImage, edit: func(s *v1alpha1.CatalogSourceSpec) { s.Priority = -100 }, priority: -100},
		"a very high priority": {image: fruitImage, edit: func(s *v1alpha1.CatalogSourceSpec) { s.Priority = math.MaxInt32 + 1 }, priority: math.MaxInt32, note: "its priority"},
		"pull secrets":         {image: fruitImage, edit: func(s *v1alpha1.CatalogSourceSpec) { s.Secrets = []string{"login"} }, note: "pull secret of Mainstay"},
		"a pod configuration":  {image: fruitImage, edit: func(s *v1alpha1.CatalogSourceSpec) { s.GrpcPodConfig = &v1alpha1.GrpcPodConfig{} }, note: "has no pod"},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewCatalogs([]v1alpha1.CatalogSource{newSource("a", "fruit", test.image, test.edit)}, nil)[0]
			expectEqual(t, "source", p.Create.Spec.Source.Image, &olmv1.ImageSource{Ref: test.image, PollIntervalMinutes: test.minutes})
			expectEqual(t, "priority", p.Create.Spec.Priority, test.priority)
			expectEqual(t, "origin", p.Create.Annotations[AnnotationMigratedFromCatalog], "a/fruit")
			if got := strings.Join(p.Notes, ";"); (got == "") != (test.note == "") || !strings.Contains(got, test.note) {
				t.Errorf("got the notes %q, want %q", got, test.note)
			}
		})
	}
}

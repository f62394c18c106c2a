package crdsafety

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// FuzzCheck compares arbitrary schemas. A schema is always safe compared with itself, and a report
// is never empty.
func FuzzCheck(f *testing.F) {
	for _, pair := range rulePairs {
		f.Add(seed(f, pair.a), seed(f, pair.b))
	}

	for _, place := range places {
		f.Add(seed(f, place.around), seed(f, "{}"))
	}

	f.Fuzz(func(t *testing.T, a, b []byte) {
		var schemas [2]apiextensionsv1.JSONSchemaProps
		for i, data := range [][]byte{a, b} {
			if err := json.Unmarshal(data, &schemas[i]); err != nil {
				t.Skip("not a schema")
			}
		}

		old, updated := sample(t, "{}"), sample(t, "{}")
		old.Spec.Versions[0].Schema.OpenAPIV3Schema, updated.Spec.Versions[0].Schema.OpenAPIV3Schema = &schemas[0], &schemas[1]
		if err := Check(old, old.DeepCopy()); err != nil {
			t.Errorf("got error %v for a CRD compared with itself, want none", err)
		}

		first, second := messages(t, Check(old, updated)), messages(t, Check(old, updated))
		if !slices.Equal(first, second) {
			t.Errorf("got messages\n%[2]q\nfor the same change, want\n%[1]q", first, second)
		}
	})
}

func seed(t testing.TB, schema string) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(schema))
	if err != nil {
		return []byte(schema)
	}
	return data
}

// TestLooseningIsSafe creates random schemas and loosens them at random places. The
// change is safe, and its reversal is not.
func TestLooseningIsSafe(t *testing.T) {
	for number := range uint64(500) {
		random := rand.New(rand.NewPCG(1, number))
		old := sample(t, "{type: object}")
		root := old.Spec.Versions[0].Schema.OpenAPIV3Schema
		*root = strict(random, 3)
		updated := old.DeepCopy()
		loosened := loosen(random, updated.Spec.Versions[0].Schema.OpenAPIV3Schema)
		if err := Check(old, updated); err != nil {
			t.Errorf("schemas %d: got error %v for a loosened schema, want none; the schema was %s", number, err, encodeJSON(root))
		}
		if err := Check(updated, old); err == nil && loosened > 0 {
			t.Errorf("schemas %d: got no error for a schema tightened at %d places, want one; the schema was\n%s", number, loosened, encodeJSON(root))
		}
	}
}

// strict returns the schema of an object in which everything can be loosened.
func strict(random *rand.Rand, depth int) apiextensionsv1.JSONSchemaProps {
	s := apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"a"}, MinProperties: to[int64](1 + random.Int64N(3)), MaxProperties: to[int64](5),
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"a": {
				Type: "string", MinLength: to[int64](2), MaxLength: to[int64](9), Pattern: "a", Format: "uuid",
				Enum: []apiextensionsv1.JSON{{Raw: []byte(`"x"`)}}, XValidations: apiextensionsv1.ValidationRules{{Rule: "true"}},
			},
			"n": {Type: "number", Minimum: to(2.5), Maximum: to(7.5), ExclusiveMinimum: true, ExclusiveMaximum: true, MultipleOf: to(4.0)},
		},
		AllOf: []apiextensionsv1.JSONSchemaProps{{Required: []string{"a"}}}, Not: &apiextensionsv1.JSONSchemaProps{Required: []string{"z"}},
		AnyOf: []apiextensionsv1.JSONSchemaProps{{Required: []string{"a"}}}, OneOf: []apiextensionsv1.JSONSchemaProps{{Required: []string{"a"}}},
	}

	if depth > 0 {
		list, values := strict(random, depth-1), strict(random, depth-1)
		s.Properties["list"] = apiextensionsv1.JSONSchemaProps{
			Type: "array", MinItems: to[int64](1), MaxItems: to[int64](4), UniqueItems: true, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &list},
		}
		s.Properties["map"] = apiextensionsv1.JSONSchemaProps{
			Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &values},
		}
	}

	return s
}

func to[T any](value T) *T { return &value }

// loosen changes about every tenth attribute, in place, and returns how many.
func loosen(random *rand.Rand, s *apiextensionsv1.JSONSchemaProps) int {
	n := 0
	may := func(possible bool, do func()) {
		if possible && random.IntN(10) == 0 {
			do()
			n++
		}
	}

	lower := func(p *int64) { *p-- }
	raise := func(p *int64) { *p += 3 }
	for _, p := range []**int64{&s.MinLength, &s.MinItems, &s.MinProperties} {
		may(*p != nil, func() { lower(*p) })
		may(*p != nil, func() { *p = nil })
	}

	for _, p := range []**int64{&s.MaxLength, &s.MaxItems, &s.MaxProperties} {
		may(*p != nil, func() { raise(*p) })
		may(*p != nil, func() { *p = nil })
	}

	may(s.Minimum != nil, func() { *s.Minimum -= 0.5 })
	may(s.Maximum != nil, func() { s.Maximum = nil })
	may(s.ExclusiveMinimum && s.Minimum != nil, func() { s.ExclusiveMinimum = false })
	may(s.MultipleOf != nil, func() { *s.MultipleOf = 2 })
	may(len(s.Required) > 0, func() { s.Required = nil })
	may(s.Pattern != "", func() { s.Pattern = "" })
	may(s.Format != "", func() { s.Format = "" })
	may(len(s.Enum) > 0, func() { s.Enum = append(s.Enum, apiextensionsv1.JSON{Raw: []byte(`"y"`)}) })
	may(len(s.Enum) > 0, func() { s.Enum = nil })
	may(len(s.XValidations) > 0, func() { s.XValidations = nil })
	may(s.UniqueItems, func() { s.UniqueItems = false })
	may(!s.Nullable, func() { s.Nullable = true })
	may(len(s.AllOf) > 0, func() { s.AllOf = nil })
	may(len(s.OneOf) > 0, func() { s.OneOf = nil })
	may(len(s.AnyOf) > 0, func() { s.AnyOf = append(s.AnyOf, apiextensionsv1.JSONSchemaProps{Required: []string{"b"}}) })
	may(s.Not != nil, func() { s.Not = nil })
	may(s.Type == "object" && s.AdditionalProperties == nil, func() { s.XPreserveUnknownFields = to(true) })
	may(len(s.Properties) > 0, func() {
		s.Properties["new"] = apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"d"`)}}
	})
	if s.Items != nil {
		n += loosen(random, s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		n += loosen(random, s.AdditionalProperties.Schema)
	}

	for _, name := range []string{"a", "n", "list", "map"} {
		if property, ok := s.Properties[name]; ok {
			n += loosen(random, &property)
			s.Properties[name] = property
		}
	}

	return n
}

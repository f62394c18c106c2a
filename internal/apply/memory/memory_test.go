package memory

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestMemory(t *testing.T) {
	request, content := DigestOf("request"), DigestOf("content")
	for name, test := range map[string]struct {
		object           Object
		request, content Digest
		recalled, same   bool
	}{
		"the same version":             {Object{"a", "1"}, request, content, true, true},
		"another version":              {Object{"a", "2"}, request, content, false, true},
		"another version and content":  {Object{"a", "2"}, request, DigestOf("other"), false, false},
		"another request":              {Object{"a", "1"}, DigestOf("other"), content, false, false},
		"another object":               {Object{"b", "1"}, request, content, false, false},
		"an object without a UID":      {Object{"", "1"}, request, content, false, false},
		"the same version, not hashed": {Object{"a", "1"}, request, DigestOf("other"), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := New[string](10)
			m.Record(Object{"a", "1"}, request, content, "healthy")
			m.Record(Object{"", "1"}, request, content, "healthy")
			if result, ok := m.Recall(test.object, test.request); ok != test.recalled || ok && result != "healthy" {
				t.Errorf("Recall: got %q, %t, want %t", result, ok, test.recalled)
			}
			if got := m.IsUnchanged(test.object, test.request, func() Digest { return test.content }); got != test.same {
				t.Errorf("IsUnchanged: got %t, want %t", got, test.same)
			}
		})
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m := New[int](2)
	for i, uid := range []types.UID{"a", "b", "c"} {
		m.Record(Object{uid, "1"}, Digest{}, Digest{}, i)
	}
	if _, ok := m.Recall(Object{"a", "1"}, Digest{}); ok {
		t.Error("the oldest object is still in a memory of two")
	}
	if got, ok := m.Recall(Object{"c", "1"}, Digest{}); !ok || got != 2 {
		t.Errorf("the newest object: got %d, %t, want 2", got, ok)
	}
}

func TestNilMemoryIsEmpty(t *testing.T) {
	var m *Memory[int]
	m.Record(Object{"a", "1"}, Digest{}, Digest{}, 1)
	if _, ok := m.Recall(Object{"a", "1"}, Digest{}); ok {
		t.Error("a nil memory has an entry")
	}
	if m.IsUnchanged(Object{"a", "1"}, Digest{}, func() Digest { return Digest{} }) {
		t.Error("a nil memory knows an object")
	}
}

func TestDigestOf(t *testing.T) {
	if DigestOf("a", "b") == DigestOf("ab") || DigestOf("a", "b") == DigestOf("b", "a") {
		t.Error("different values have the same digest")
	}
	if DigestOf(map[string]int{"a": 1, "b": 2}) != DigestOf(map[string]int{"b": 2, "a": 1}) {
		t.Error("the order of keys changes the digest")
	}
}

package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Key names an object.
type Key struct {
	schema.GroupKind
	// Namespace is empty for an object of the whole cluster.
	Namespace string
	Name      string
}

// KeyOf returns the key of a manifest.
func KeyOf(u *unstructured.Unstructured) Key {
	return Key{GroupKind: u.GroupVersionKind().GroupKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// IsCRD reports whether the key is that of a CustomResourceDefinition.
func (k Key) IsCRD() bool { return k.GroupKind == crdKind }

// String is how messages name the object: Deployment "namespace/name".
func (k Key) String() string {
	if k.Namespace == "" {
		return fmt.Sprintf("%s %q", k.Kind, k.Name)
	}
	return fmt.Sprintf("%s %q", k.Kind, k.Namespace+"/"+k.Name)
}

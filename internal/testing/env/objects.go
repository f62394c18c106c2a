package env

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CreateForTest creates objects, and deletes them when the test ends.
func (f *Fixture) CreateForTest(objects ...client.Object) {
	f.T.Helper()
	for _, object := range objects {
		f.CreateAll(object)
		f.T.Cleanup(func() {
			if err := f.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
				f.T.Errorf("deleting %T %s: %v", object, client.ObjectKeyFromObject(object), err)
			}
		})
	}
}

// DeleteAllAtEnd deletes all objects of some kinds in a namespace when the test ends.
func (f *Fixture) DeleteAllAtEnd(namespace string, kinds ...client.Object) {
	f.T.Cleanup(func() {
		for _, kind := range kinds {
			if err := f.DeleteAllOf(context.Background(), kind, client.InNamespace(namespace)); err != nil {
				f.T.Errorf("deleting all %T of namespace %s: %v", kind, namespace, err)
			}
		}
	})
}

// Find reads an object and reports whether it exists.
func (f *Fixture) Find(object client.Object, namespace, name string) bool {
	f.T.Helper()
	err := f.Get(f.T.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
	f.Must(client.IgnoreNotFound(err))
	return err == nil
}

// WaitUntilExists waits until an object exists, and reads it.
func (f *Fixture) WaitUntilExists(object client.Object, namespace, name string) {
	f.T.Helper()
	key := client.ObjectKey{Namespace: namespace, Name: name}
	f.Eventually(fmt.Sprintf("%T %s exists", object, key), func() error { return f.Get(f.T.Context(), key, object) })
}

// WaitUntilGone waits until an object does not exist.
func (f *Fixture) WaitUntilGone(object client.Object, namespace, name string) {
	f.T.Helper()
	key := client.ObjectKey{Namespace: namespace, Name: name}
	f.Eventually(fmt.Sprintf("%T %s is gone", object, key), func() error {
		if err := f.Get(f.T.Context(), key, object); err != nil {
			return client.IgnoreNotFound(err)
		}
		return errors.New("it exists")
	})
}

// PatchObject changes an object that was read, and patches it without its status.
func (f *Fixture) PatchObject(object client.Object, change func()) {
	f.T.Helper()
	before := f.copyObject(object)
	change()
	f.Must(f.Patch(f.T.Context(), object, client.MergeFrom(before)))
}

// PatchStatus changes the status of an object that was read, and patches it.
func (f *Fixture) PatchStatus(object client.Object, change func()) {
	f.T.Helper()
	before := f.copyObject(object)
	change()
	f.Must(f.Status().Patch(f.T.Context(), object, client.MergeFrom(before)))
}

// EditObject reads an object, changes it and patches it. It starts again after an error, such as a conflict with another
// writer.
func EditObject[T client.Object](f *Fixture, object T, change func(T)) {
	f.T.Helper()
	key := client.ObjectKeyFromObject(object)
	f.Eventually(fmt.Sprintf("%T %s is changed", object, key), func() error {
		if err := f.Get(f.T.Context(), key, object); err != nil {
			return err
		}

		before := f.copyObject(object)
		change(object)
		return f.Patch(f.T.Context(), object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

// copyObject returns a deep copy of an object.
func (f *Fixture) copyObject(object client.Object) client.Object {
	f.T.Helper()
	copied, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		f.T.Fatalf("%T cannot be copied", object)
	}
	return copied
}

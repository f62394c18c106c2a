package release_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// A payload is loaded once. The manifests of the cluster are selected, ordered and applied.
func Example() {
	file := func(name string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "` + name + `",
			"annotations": {"include.release.openshift.io/self-managed-high-availability": "true"}}}`)}
	}
	payload, err := release.Load(fstest.MapFS{
		"manifests/0000_00_cluster-version-operator_01.json":   file("the operator itself"),
		"release-manifests/0000_20_kube-apiserver_01.json":     file("before the scheduler"),
		"release-manifests/0000_25_kube-scheduler_01.json":     file("after the API server"),
		"release-manifests/0000_25_kube-scheduler_02_not.json": {Data: []byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of no profile"}}`)},
		release.FileMetadata: {Data: []byte(`{"kind": "cincinnati-metadata-v0", "version": "1.2.3"}`)},
		release.FileImages:   {Data: []byte(`{"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "1.2.3"}}`)},
	}, release.Options{ReleaseImage: "registry.example/release@sha256:0000"})
	if err != nil {
		fmt.Println(err)
		return
	}

	manifests := release.Cluster{}.Select(payload.Manifests)
	graph := release.NewGraph(manifests, release.Updating, 0)
	errs := graph.Run(context.Background(), 16, release.RunSerially(func(_ context.Context, task release.Task) error {
		fmt.Printf("%d of %d: %s\n", task.Number, task.Total, task.Manifest.Object.GetName())
		return nil
	}))
	fmt.Println(payload.Metadata.Version, len(errs))
	// Output:
	// 1 of 3: the operator itself
	// 2 of 3: before the scheduler
	// 3 of 3: after the API server
	// 1.2.3 0
}

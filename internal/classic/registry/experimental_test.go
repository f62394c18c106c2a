package registry_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// acknowledged is a context of a client that knows that the call may change.
func acknowledged(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-acknowledge-experimental", "true")
}

func TestCustomSchemas(t *testing.T) {
	c := registrypb.NewExperimentalRegistryClient(catalog(t))
	ask := func(ctx context.Context, schema, pkg string) ([]map[string]any, error) {
		stream, err := c.ExperimentalListPackageCustomSchemas(ctx, &registrypb.ListPackageCustomSchemasRequest{Schema: schema, PackageName: pkg})
		got, err := receive[structpb.Struct](t, stream, err)
		var maps []map[string]any
		for _, s := range got {
			maps = append(maps, s.AsMap())
		}

		return maps, err
	}

	const schema = "example.lifecycle"
	one := map[string]any{"schema": schema, "package": "etcd", "name": "one", "supported": true, "phases": []any{1.0, 2.5, nil}}
	two := map[string]any{"schema": schema, "package": "etcd", "name": "two"}
	global := map[string]any{"schema": schema, "name": "global", "for": map[string]any{"all": "packages"}}
	other := metadata.AppendToOutgoingContext(t.Context(), "x-acknowledge-experimental", "yes")
	for _, test := range []struct {
		name        string
		ctx         context.Context
		schema, pkg string
		want        []map[string]any
		code        codes.Code
		err         string
	}{
		{name: "of a package", ctx: acknowledged(t.Context()), schema: schema, pkg: "etcd", want: []map[string]any{one, two}},
		{name: "of no package", ctx: acknowledged(t.Context()), schema: schema, want: []map[string]any{global}},
		{name: "unknown package", ctx: acknowledged(t.Context()), schema: schema, pkg: "nats"},
		{name: "unknown schema", ctx: acknowledged(t.Context()), schema: "example.none", pkg: "etcd"},
		{name: "schema of OLM", ctx: acknowledged(t.Context()), schema: "olm.bundle", pkg: "etcd"},
		{name: "package of OLM", ctx: acknowledged(t.Context()), schema: "olm.package"},
		{name: "not acknowledged", ctx: t.Context(), schema: schema, pkg: "etcd"},
		{name: "acknowledged otherwise", ctx: other, schema: schema, pkg: "etcd"},
		{name: "not acknowledged and invalid", ctx: t.Context(), schema: "../x"},
		{name: "no schema", ctx: acknowledged(t.Context()), pkg: "etcd", code: codes.InvalidArgument, err: "schema is required"},
		{
			name: "invalid schema", ctx: acknowledged(t.Context()), schema: "../x", code: codes.InvalidArgument,
			err: `invalid custom schema query: invalid schema "../x": must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$`,
		},
		{
			name: "invalid package", ctx: acknowledged(t.Context()), schema: schema, pkg: "a/b", code: codes.InvalidArgument,
			err: `invalid custom schema query: invalid package "a/b": must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ask(test.ctx, test.schema, test.pkg)
			wantError(t, err, test.code, test.err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCustomSchemasEndWithTheClient(t *testing.T) {
	c := registrypb.NewExperimentalRegistryClient(catalog(t))
	ctx, cancel := context.WithCancel(acknowledged(t.Context()))
	cancel()
	_, err := c.ExperimentalListPackageCustomSchemas(ctx, &registrypb.ListPackageCustomSchemasRequest{Schema: "example.lifecycle", PackageName: "etcd"})
	if status.Code(err) != codes.Canceled {
		t.Errorf("got error %v", err)
	}
}

// The content must not have a name that the call cannot request.
func TestCustomSchemasAreCheckedWhenContentIsBuilt(t *testing.T) {
	for blob, want := range map[string]string{
		`{"schema": "a b"}`:                 `failed to load or rebuild cache: failed to rebuild cache: invalid custom schema meta: invalid schema "a b": must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$`,
		`{"schema": "a", "package": "b/c"}`: `failed to load or rebuild cache: failed to rebuild cache: invalid custom schema meta: invalid package "b/c": must match ^[a-zA-Z0-9][a-zA-Z0-9._-]*$`,
	} {
		s := &registry.Server{Source: content.Folder{Dir: write(t, map[string]string{"c.json": blob})}, CacheOnly: true}
		if err := s.Run(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%s: got error %v, want %s", blob, err, want)
		}
	}
}

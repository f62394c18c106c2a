package console

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// requestTimeout limits the time of an operation that is no stream.
const requestTimeout = 30 * time.Second

// registerOperations adds the operations of the API.
func (s *Server) registerOperations() {
	s.registerSession()
	s.registerEvents()
	registerAccess(s.api)
	registerOverview(s.api)
	registerInstalled(s.api)
	registerCluster(s.api)
	registerSources(s.api)
	s.registerPackages()
}

// body is the response of an operation.
type body[T any] struct{ Body T }

// get registers an operation that reads as the signed-in user.
func get[I, O any](api huma.API, id, path, summary string, read func(ctx context.Context, user *session.Session, input *I) (O, error)) {
	registerOperation(api, huma.Operation{OperationID: id, Method: http.MethodGet, Path: apiPrefix + path, Summary: summary}, read)
}

// post registers an operation that asks or writes as the signed-in user, with a body.
func post[I, O any](api huma.API, id, path, summary string, run func(ctx context.Context, user *session.Session, input *I) (O, error)) {
	registerOperation(api, huma.Operation{OperationID: id, Method: http.MethodPost, Path: apiPrefix + path, Summary: summary}, run)
}

// registerOperation registers an operation of the signed-in user.
func registerOperation[I, O any](api huma.API, operation huma.Operation, run func(ctx context.Context, user *session.Session, input *I) (O, error)) {
	huma.Register(api, operation, func(ctx context.Context, input *I) (*body[O], error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		output, err := run(ctx, sessionOf(ctx), input)
		if err != nil {
			return nil, toProblem(err)
		}
		return &body[O]{Body: output}, nil
	})
}

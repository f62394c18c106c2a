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

// planTimeout limits the time of an operation that waits for a controller: for a plan of operator-controller, which pulls a bundle
// for it, or for the removal of custom resources.
const planTimeout = 2 * time.Minute

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
	registerExtensionInstall(s.api, s.options.Registry)
	registerExtensionConfig(s.api, s.options.Registry)
	registerExtensionChanges(s.api)
	registerExtensionDetails(s.api)
	registerSubscriptionInstall(s.api)
	registerSubscriptionChanges(s.api)
	registerRelated(s.api)
	registerOperands(s.api)
}

// body is the response of an operation.
type body[T any] struct{ Body T }

// get registers an operation that reads as the signed-in user.
func get[I, O any](api huma.API, id, path, summary string, read func(ctx context.Context, user *session.Session, input *I) (O, error)) {
	registerOperation(api, huma.Operation{OperationID: id, Method: http.MethodGet, Path: apiPrefix + path, Summary: summary}, read)
}

// registerPost registers an operation that asks or writes as the signed-in user, with a body.
func registerPost[I, O any](api huma.API, id, path, summary string, run func(ctx context.Context, user *session.Session, input *I) (O, error)) {
	registerOperation(api, huma.Operation{OperationID: id, Method: http.MethodPost, Path: apiPrefix + path, Summary: summary}, run)
}

// postPlan registers an operation that is like post and waits for a controller.
func postPlan[I, O any](api huma.API, id, path, summary string, run func(ctx context.Context, user *session.Session, input *I) (O, error)) {
	operation := huma.Operation{OperationID: id, Method: http.MethodPost, Path: apiPrefix + path, Summary: summary}
	registerWithTimeout(api, operation, planTimeout, run)
}

// registerOperation registers an operation of the signed-in user.
func registerOperation[I, O any](api huma.API, operation huma.Operation, run func(ctx context.Context, user *session.Session, input *I) (O, error)) {
	registerWithTimeout(api, operation, requestTimeout, run)
}

func registerWithTimeout[I, O any](api huma.API, operation huma.Operation, timeout time.Duration, run func(ctx context.Context, user *session.Session, input *I) (O, error)) {
	huma.Register(api, operation, func(ctx context.Context, input *I) (*body[O], error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		output, err := run(ctx, sessionOf(ctx), input)
		if err != nil {
			return nil, toProblem(err)
		}
		return &body[O]{Body: output}, nil
	})
}

package registry

import (
	"context"
	"log/slog"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// maxUserAgentBytes limits the user agent in logs, which the client chooses.
const maxUserAgentBytes = 100

// callLogger logs the start and the end of each call. It logs at debug level, because anyone
// who reaches the port could otherwise fill the log of the node. Of the client's metadata it
// logs only the user agent: metadata may hold credentials.
type callLogger struct {
	log *slog.Logger
	// onError is called with the error of each call, or nil.
	onError func(error)
}

// interceptUnary is a grpc.UnaryServerInterceptor.
func (l *callLogger) interceptUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	finish := l.logStart(ctx, info.FullMethod)
	answer, err := handler(ctx, request)
	finish(err)
	return answer, err
}

// interceptStream is a grpc.StreamServerInterceptor.
func (l *callLogger) interceptStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	finish := l.logStart(stream.Context(), info.FullMethod)
	err := handler(server, stream)
	finish(err)
	return err
}

// logStart logs the start of a call and returns a function that logs its end.
func (l *callLogger) logStart(ctx context.Context, method string) func(error) {
	if !l.log.Enabled(ctx, slog.LevelDebug) {
		return func(err error) { l.onError(err) }
	}

	service, name := path.Split(method)
	log := l.log.With("grpc.service", strings.Trim(service, "/"), "grpc.method", name)
	if client, ok := peer.FromContext(ctx); ok {
		log = log.With("peer.address", client.Addr.String())
	}
	if agent := metadata.ValueFromIncomingContext(ctx, "user-agent"); len(agent) > 0 {
		log = log.With("user_agent", excerpt.Line(agent[0], maxUserAgentBytes))
	}

	log.Debug("started call")
	began := time.Now()
	return func(err error) {
		l.onError(err)
		log = log.With("grpc.code", status.Code(err).String(), "grpc.time_ms", float64(time.Since(began).Microseconds())/1000)
		if err != nil {
			log = log.With("grpc.error", err.Error())
		}
		log.Debug("finished call")
	}
}

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
)

// callLog logs each call at its start and at its end, at debug level: whoever reaches the port
// could fill the log of the node otherwise. Of what the client sends along it
// logs nothing but the name of the program: metadata may hold its credentials.
type callLog struct {
	log *slog.Logger
	// failed is told the error of a call.
	failed func(error)
}

func (l *callLog) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	finish := l.start(ctx, info.FullMethod)
	answer, err := handler(ctx, request)
	finish(err)
	return answer, err
}

func (l *callLog) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	finish := l.start(stream.Context(), info.FullMethod)
	err := handler(server, stream)
	finish(err)
	return err
}

// start logs the begin of a call. The function that it gives logs the end.
func (l *callLog) start(ctx context.Context, method string) func(error) {
	if !l.log.Enabled(ctx, slog.LevelDebug) {
		return func(err error) { l.failed(err) }
	}

	service, name := path.Split(method)
	log := l.log.With("grpc.service", strings.Trim(service, "/"), "grpc.method", name)
	if client, ok := peer.FromContext(ctx); ok {
		log = log.With("peer.address", client.Addr.String())
	}
	if agent := metadata.ValueFromIncomingContext(ctx, "user-agent"); len(agent) > 0 {
		log = log.With("user_agent", abbreviate(agent[0]))
	}

	log.Debug("started call")
	began := time.Now()
	return func(err error) {
		l.failed(err)
		log = log.With("grpc.code", status.Code(err).String(), "grpc.time_ms", float64(time.Since(began).Microseconds())/1000)
		if err != nil {
			log = log.With("grpc.error", err.Error())
		}
		log.Debug("finished call")
	}
}

// abbreviate cuts a text that a client chose to what a line of a log can take.
func abbreviate(text string) string {
	const most = 100
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

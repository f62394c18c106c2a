// Command hello-operator is the sample operator that the demo and the end-to-end tests install.
// It writes a greeting to the status of each Greeting and serves it over HTTP. From version 1.2.0
// it also defaults, validates and converts Greetings with webhooks. On request it serves the
// aggregated API of Words. It reports that it can be updated, if it has an OperatorCondition.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

var greetingKind = schema.GroupVersionKind{Group: "hello.example.com", Version: "v1alpha1", Kind: "Greeting"}

func main() {
	word := flag.String("word", "Hello", "how a greeting starts")
	address := flag.String("address", ":8080", "address that greetings are answered on: GET /<namespace>/<name>")
	webhookPort := flag.Int("webhook-port", 0, "port that webhooks are served on; 0 turns them off")
	apiPort := flag.Int("api-port", 0, "port that the aggregated API of Words is served on; 0 turns it off")
	shutdownDelay := flag.Duration("shutdown-delay", 0, "how long requests are answered after the signal to stop, until no client sends any")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	signalled := ctrl.SetupSignalHandler()
	o := operatorOptions{word: *word, address: *address, webhookPort: *webhookPort, apiPort: *apiPort, signalled: signalled}
	if err := runManager(delayCancellation(signalled, *shutdownDelay), o); err != nil {
		fmt.Fprintln(os.Stderr, "hello-operator:", err)
		os.Exit(1)
	}
}

// delayCancellation returns a context that is cancelled some time after ctx.
func delayCancellation(ctx context.Context, delay time.Duration) context.Context {
	delayed, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(delay, cancel) })
	return delayed
}

// operatorOptions are the flags of the operator.
type operatorOptions struct {
	word, address        string
	webhookPort, apiPort int
	// signalled is done when the operator is to stop.
	signalled context.Context
}

// closeConnections returns a handler that closes each connection with its response after the signal to stop. Clients
// then connect to other pods, before this one refuses their requests.
func (o *operatorOptions) closeConnections(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.signalled.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

func runManager(ctx context.Context, o operatorOptions) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}

	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Cache:                  cache.Options{DefaultNamespaces: watchedNamespaces(os.Getenv("WATCH_NAMESPACE"))},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: ":8081",
		WebhookServer:          webhook.NewServer(webhook.Options{Port: o.webhookPort}),
	})
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}

	if o.webhookPort > 0 {
		if err := registerWebhooks(mgr, o.closeConnections); err != nil {
			return err
		}
	}

	if o.apiPort > 0 {
		if err := mgr.Add(&wordServer{word: o.word, port: o.apiPort, wrap: o.closeConnections}); err != nil {
			return err
		}
	}

	if name := os.Getenv(conditionVariable); name != "" {
		if err := mgr.Add(&conditionReporter{client: mgr.GetClient(), name: name}); err != nil {
			return err
		}
	}

	greeter := &greeter{client: mgr.GetClient(), word: o.word}
	if err := ctrl.NewControllerManagedBy(mgr).For(newGreeting()).Complete(greeter); err != nil {
		return err
	}
	if err := mgr.Add(&greetingServer{greeter: greeter, address: o.address, wrap: o.closeConnections}); err != nil {
		return err
	}

	return mgr.Start(ctx)
}

// watchedNamespaces returns the namespaces of a comma-separated list; an empty list means all.
func watchedNamespaces(list string) map[string]cache.Config {
	if list == "" {
		return nil
	}

	result := map[string]cache.Config{}
	for name := range strings.SplitSeq(list, ",") {
		result[name] = cache.Config{}
	}
	return result
}

func newGreeting() *unstructured.Unstructured {
	greeting := &unstructured.Unstructured{}
	greeting.SetGroupVersionKind(greetingKind)
	return greeting
}

// greeter reconciles Greetings: it writes the greeting to their status.
type greeter struct {
	client client.Client
	word   string
}

func (g *greeter) formatMessage(greeting *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(greeting.Object, "spec", "name")
	return fmt.Sprintf("%s, %s!", g.word, name)
}

// Reconcile writes the greeting of one Greeting to its status.
func (g *greeter) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	greeting := newGreeting()
	if err := g.client.Get(ctx, req.NamespacedName, greeting); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}

	before := greeting.DeepCopy()
	status := map[string]any{
		"message": g.formatMessage(greeting),
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Greeted", "message": "",
			"lastTransitionTime": greeting.GetCreationTimestamp().UTC().Format(time.RFC3339),
			"observedGeneration": greeting.GetGeneration(),
		}},
	}
	if err := unstructured.SetNestedMap(greeting.Object, status, "status"); err != nil {
		return ctrl.Result{}, err
	}

	return ctrl.Result{}, client.IgnoreNotFound(g.client.Status().Patch(ctx, greeting, client.MergeFrom(before)))
}

// greetingServer serves the greetings over HTTP.
type greetingServer struct {
	greeter *greeter
	address string
	// wrap changes the handler.
	wrap func(http.Handler) http.Handler
}

// Start serves until the context ends.
func (a *greetingServer) Start(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{namespace}/{name}", a.serveGreeting)
	server := &http.Server{Addr: a.address, Handler: a.wrap(mux), ReadHeaderTimeout: 5 * time.Second}
	return serveUntilDone(ctx, server, server.ListenAndServe)
}

// serveUntilDone serves until the context ends, and then until all requests are answered.
func serveUntilDone(ctx context.Context, server *http.Server, serve func() error) error {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = server.Shutdown(context.WithoutCancel(ctx)) // The process ends anyway.
	})
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}

	<-done
	return nil
}

func (a *greetingServer) serveGreeting(w http.ResponseWriter, r *http.Request) {
	greeting := newGreeting()
	key := client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if err := a.greeter.client.Get(r.Context(), key, greeting); err != nil {
		http.Error(w, "no such greeting", http.StatusNotFound)
		return
	}

	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, a.greeter.formatMessage(greeting))
}

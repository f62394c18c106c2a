// Command hello-operator is the sample operator that the demo and the end-to-end tests install.
// It writes a greeting to the status of each Greeting and serves it over HTTP. From version 1.2.0
// it also defaults, validates and converts Greetings with webhooks.
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
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := runManager(ctrl.SetupSignalHandler(), *word, *address, *webhookPort); err != nil {
		fmt.Fprintln(os.Stderr, "hello-operator:", err)
		os.Exit(1)
	}
}

func runManager(ctx context.Context, word, address string, webhookPort int) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}

	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Cache:                  cache.Options{DefaultNamespaces: watchedNamespaces(os.Getenv("WATCH_NAMESPACE"))},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: ":8081",
		WebhookServer:          webhook.NewServer(webhook.Options{Port: webhookPort}),
	})
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}

	if webhookPort > 0 {
		if err := registerWebhooks(mgr); err != nil {
			return err
		}
	}

	greeter := &greeter{client: mgr.GetClient(), word: word}
	if err := ctrl.NewControllerManagedBy(mgr).For(newGreeting()).Complete(greeter); err != nil {
		return err
	}
	if err := mgr.Add(&greetingServer{greeter: greeter, address: address}); err != nil {
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
}

// Start serves until the context ends.
func (a *greetingServer) Start(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{namespace}/{name}", a.serveGreeting)
	server := &http.Server{Addr: a.address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}

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

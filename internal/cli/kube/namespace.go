package kube

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NamespaceFlag is the flag --namespace. It defaults to the namespace of the context.
type NamespaceFlag struct {
	value string
}

// AddFlag adds the flag to a command. The argument usage is its help.
func (f *NamespaceFlag) AddFlag(cmd *cobra.Command, session *Session, usage string) {
	cmd.Flags().StringVarP(&f.value, "namespace", "n", "", usage+" (default: the namespace of the context)")
	_ = cmd.RegisterFlagCompletionFunc("namespace", session.CompleteFlagValue(ListNamespaceNames)) // the flag was just added
}

// Namespace returns the value of the flag, or the namespace of the context.
func (f *NamespaceFlag) Namespace(session *Session) (string, error) {
	if f.value != "" {
		return f.value, nil
	}
	return session.cluster.Namespace()
}

// CompleteName completes the first argument of a command with the names in the namespace that list
// returns.
func (f *NamespaceFlag) CompleteName(session *Session, list func(ctx context.Context, c client.Client, namespace string) ([]string, error)) cobra.CompletionFunc {
	return session.CompleteFirstArgument(func(ctx context.Context, c client.Client) ([]string, error) {
		namespace, err := f.Namespace(session)
		if err != nil {
			return nil, err
		}
		return list(ctx, c, namespace)
	})
}

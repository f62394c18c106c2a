package kube

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// RestrictNamespaceFlags makes the flags for namespaces of a command and its subcommands refuse texts that are not names of namespaces.
func RestrictNamespaceFlags(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		RestrictNamespaceFlags(child)
	}

	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		isNamespace := flag.Name == "namespace" || strings.HasSuffix(flag.Name, "-namespace")
		if !isNamespace || flag.Value.Type() == "bool" {
			return
		}

		value := flag.Value
		terminal.RestrictFlag(cmd, flag.Name, "the name of a namespace: lowercase letters, digits and -, at most 63 characters", func() bool {
			names := []string{value.String()}
			if list, ok := value.(pflag.SliceValue); ok {
				names = list.GetSlice()
			}
			return !slices.ContainsFunc(names, func(name string) bool {
				return name != "" && len(validation.IsDNS1123Label(name)) > 0
			})
		})
	})
}

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

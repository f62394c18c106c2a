package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/migration"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// Options are what the commands need.
type Options struct {
	// AddFlags adds the flags that select a cluster and a user. Nil adds none.
	AddFlags func(cmd *cobra.Command)
	// Config returns the client configuration of the selected cluster.
	Config func() (*rest.Config, error)
	// Sources returns the catalogs and bundles of a cluster. Nil means those that the cluster serves
	// and that this machine pulls.
	Sources func(config *rest.Config, systemNamespace string, registry catalogs.Registry, progress report.Progress) (migration.Catalogs, migration.Bundles)
}

// NewCommand returns the command `mainstay migrate`.
func NewCommand(o Options) *cobra.Command {
	if o.Sources == nil {
		o.Sources = newClusterSources
	}

	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move operators from OLM Classic to OLM v1",
		Args:  cobra.ArbitraryArgs,
		RunE:  terminal.RunGroup,
	}
	if o.AddFlags != nil {
		o.AddFlags(cmd)
	}

	cmd.AddCommand(newCatalogsCommand(o), newSubscriptionCommand(o))
	return cmd
}

func newClusterSources(config *rest.Config, systemNamespace string, registry catalogs.Registry, progress report.Progress) (migration.Catalogs, migration.Bundles) {
	return &migration.ServedCatalogs{Config: config, SystemNamespace: systemNamespace}, &migration.BundleImages{Registry: registry, Progress: progress}
}

// subscriptionFlags are the flags of `mainstay migrate subscription`.
type subscriptionFlags struct {
	namespace, systemNamespace       string
	extension, serviceAccount        string
	acknowledged                     []string
	dryRun, all, rollback, confirmed bool
	timeout                          time.Duration
	registry                         catalogs.Registry
	out                              terminal.Output
}

// acknowledgeInstalled accepts the rollback of an installed extension.
const acknowledgeInstalled = "installed-extension"

func newSubscriptionCommand(o Options) *cobra.Command {
	f := &subscriptionFlags{}
	cmd := &cobra.Command{
		Use:   "subscription NAME --namespace NAMESPACE",
		Short: "Move the operator of a Subscription to a ClusterExtension",
		Long: `Move the operator of a Subscription to a ClusterExtension, in place. The extension takes over the
objects of the operator. No object is deleted and created again, and no pod restarts unless the plan
says so.

The operator is checked first. Findings that prevent the migration are printed with what to do, and
nothing is changed. Some findings can be accepted with --acknowledge. With --dry-run the plan is
printed: all findings, and each object with its action.

A snapshot in the namespace of the operator keeps what is removed. Until the migration is confirmed
with --confirm, --rollback returns the operator to OLM Classic, and the extension stays at its version.
An interrupted migration or rollback continues when the same command is run again.`,
		Example: `  # Show what would happen
  mainstay migrate subscription argocd-operator --namespace argocd --dry-run

  # Migrate, then check the operator, then confirm
  mainstay migrate subscription argocd-operator --namespace argocd
  mainstay migrate subscription argocd-operator --namespace argocd --confirm

  # Return to OLM Classic
  mainstay migrate subscription argocd-operator --namespace argocd --rollback --acknowledge installed-extension

  # Migrate all operators that can be migrated
  mainstay migrate subscription --all`,
		Args: terminal.MaximumArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(args); err != nil {
				return &terminal.UsageError{Err: err}
			}
			return f.run(cmd, o, args)
		},
	}

	f.addFlags(cmd)
	terminal.StripControlCharacters(cmd)
	return cmd
}

func (f *subscriptionFlags) addFlags(cmd *cobra.Command) {
	names := make([]string, 0, len(plan.Acknowledgements)+1)
	for _, name := range plan.Acknowledgements {
		names = append(names, string(name))
	}
	names = append(names, acknowledgeInstalled)

	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the Subscription; with --all: only Subscriptions of this namespace")
	flags.StringVar(&f.systemNamespace, "system-namespace", "", "namespace of Mainstay (default: olmv1-system)")
	flags.StringVar(&f.extension, "extension", "", "name of the ClusterExtension (default: the name of the Subscription)")
	flags.StringVar(&f.serviceAccount, "service-account", "", "service account that manages the objects of the extension (default: none)")
	flags.StringSliceVar(&f.acknowledged, "acknowledge", nil, "findings to accept: "+strings.Join(names, ","))
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the plan and change nothing")
	flags.BoolVar(&f.all, "all", false, "migrate all operators that can be migrated")
	flags.BoolVar(&f.rollback, "rollback", false, "return the operator to OLM Classic")
	flags.BoolVar(&f.confirmed, "confirm", false, "end the migration: delete the snapshot, and let the extension update itself")
	terminal.AddDurationFlag(cmd, &f.timeout, "timeout", 5*time.Minute, "maximum time of each wait for a controller")
	f.out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)
	opm.AddRegistryFlags(cmd, &f.registry)
	cmd.MarkFlagsMutuallyExclusive("all", "rollback")
	cmd.MarkFlagsMutuallyExclusive("all", "confirm")
	cmd.MarkFlagsMutuallyExclusive("all", "extension")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "rollback", "confirm")
}

func (f *subscriptionFlags) validate(args []string) error {
	switch {
	case f.all && len(args) > 0:
		return errors.New("NAME and --all exclude each other")
	case !f.all && len(args) == 0:
		return errors.New("either NAME or --all is required")
	case !f.all && f.namespace == "":
		return errors.New("--namespace is required")
	}

	for _, name := range f.acknowledged {
		if name != acknowledgeInstalled && !slices.Contains(plan.Acknowledgements, plan.Acknowledgement(name)) {
			return fmt.Errorf("--acknowledge: there is no finding %q", name)
		}
	}
	return nil
}

// run carries out the operation that the flags select.
func (f *subscriptionFlags) run(cmd *cobra.Command, o Options, args []string) error {
	migrate, err := f.newMigrate(cmd, o)
	if err != nil {
		return err
	}
	if f.all {
		return f.runFleet(cmd, migrate)
	}

	migrate.Name = args[0]
	switch {
	case f.rollback:
		accepted := slices.Contains(f.acknowledged, acknowledgeInstalled)
		return (&migration.Rollback{Operation: migrate.Operation, AcknowledgeInstalled: accepted}).Run(cmd.Context())
	case f.confirmed:
		return (&migration.Confirm{Operation: migrate.Operation}).Run(cmd.Context())
	case f.dryRun:
		return f.printPlan(cmd, migrate)
	}

	err = migrate.Run(cmd.Context())
	var refused *migration.RefusedError
	if errors.As(err, &refused) {
		if printErr := f.writePlan(cmd, refused.Plan); printErr != nil {
			return printErr
		}
		return err
	}
	if err != nil {
		return err
	}

	fmt.Fprintf(cmd.ErrOrStderr(), "Migrated. Check the operator, then end the migration with --confirm, or return with --rollback.\n")
	return nil
}

func (f *subscriptionFlags) newMigrate(cmd *cobra.Command, o Options) (*migration.Migrate, error) {
	config, c, err := newClient(o)
	if err != nil {
		return nil, err
	}

	progress := terminal.NewProgress(cmd.ErrOrStderr())
	served, images := o.Sources(config, f.systemNamespace, f.registry, progress)
	options := plan.Options{Extension: f.extension, ServiceAccount: f.serviceAccount}
	for _, name := range f.acknowledged {
		options.Acknowledged = append(options.Acknowledged, plan.Acknowledgement(name))
	}

	return &migration.Migrate{
		Operation: migration.Operation{Client: c, Progress: progress, Namespace: f.namespace, Timeout: f.timeout},
		Catalogs:  served, Bundles: images, Options: options,
	}, nil
}

// newClient returns a client of the selected cluster, and its configuration.
func newClient(o Options) (*rest.Config, client.Client, error) {
	config, err := o.Config()
	if err != nil {
		return nil, nil, err
	}

	config.QPS, config.Burst = 50, 100
	scheme, err := migration.Scheme()
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, &report.Error{
			Object: "cluster " + config.Host, Err: fmt.Errorf("cannot be reached: %w", err),
			Advice: "check that the cluster is running, or select another one with --context",
		}
	}
	return config, c, nil
}

// printPlan prints the plan of a migration. The exit code is 1 if findings prevent it.
func (f *subscriptionFlags) printPlan(cmd *cobra.Command, migrate *migration.Migrate) error {
	p, err := migrate.Check(cmd.Context())
	if err != nil {
		return err
	}
	if err := f.writePlan(cmd, p); err != nil {
		return err
	}
	if !p.Allowed() {
		return &terminal.ExitError{Code: 1, Err: &migration.RefusedError{Plan: p}}
	}
	return nil
}

// runFleet migrates all operators and prints a table of them.
func (f *subscriptionFlags) runFleet(cmd *cobra.Command, migrate *migration.Migrate) error {
	fleet := &migration.Fleet{Migrate: *migrate, DryRun: f.dryRun}
	members, runErr := fleet.Run(cmd.Context())
	if members == nil && runErr != nil {
		return runErr
	}
	if err := f.writeFleet(cmd, members); err != nil {
		return err
	}
	return runErr
}

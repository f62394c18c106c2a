// Package updates implements `mainstay updates`, which shows update graphs.
package updates

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/update/updates"
	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// Output formats of drawings.
const (
	formatMermaid = "mermaid"
	formatDOT     = "dot"
	formatSVG     = "svg"
)

// NewCommand returns the command `mainstay updates`.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "updates",
		Short: "Show the update graphs of clusters",
		Args:  cobra.ArbitraryArgs,
		RunE:  terminal.RunGroup,
	}

	cmd.AddCommand(newGraphCommand())
	return cmd
}

func newGraphCommand() *cobra.Command {
	graph := updates.Graph{Program: terminal.Version()}
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "graph SOURCE",
		Short: "Show or draw an update graph",
		Long: `Show the update graph of a channel as an update service serves it to clusters. For each release, the
number of updates with and without known issues is shown. The graph can be drawn as a Mermaid
flowchart, as an SVG image, or as DOT for Graphviz.

SOURCE is the URL of an update service or a file with a graph in JSON.`,
		Example: `  mainstay updates graph http://localhost:8081/api/upgrades_info/graph --channel stable-1.4
  mainstay updates graph https://updates.example.com/api/upgrades_info/graph --channel stable-1.4 --arch arm64 --from 1.3.7 -o svg
  mainstay updates graph graph.json -o mermaid`,
		Args: terminal.ExactArgs("SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			graph.Source = args[0]
			g, err := graph.Run(cmd.Context())
			if err != nil {
				return err
			}
			return printUpdateGraph(cmd.OutOrStdout(), out.Format, g)
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&graph.Channel, "channel", "", "channel to request from the update service")
	flags.StringVar(&graph.Architecture, "arch", "", "architecture to request, as a GOARCH value or multi (default: the default of the update service)")
	flags.StringVar(&graph.From, "from", "", "show only releases that a cluster of this version can reach, directly or through other releases")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatWide, formatMermaid, formatDOT, formatSVG)

	return cmd
}

func printUpdateGraph(w io.Writer, format string, g *cincinnati.Graph) error {
	switch format {
	case terminal.FormatJSON:
		data, err := g.Encode()
		if err != nil {
			return err
		}
		return terminal.PrintValue(w, format, json.RawMessage(data))
	case formatMermaid:
		return g.WriteMermaid(w)
	case formatDOT:
		return g.WriteDOT(w)
	case formatSVG:
		return g.WriteSVG(w)
	}

	wide := format == terminal.FormatWide
	headers := []string{"VERSION", "UPDATES", "WITH KNOWN ISSUES", "NEWEST"}
	if wide {
		headers = []string{"VERSION", "UPDATES", "WITH KNOWN ISSUES", "CHANNELS", "IMAGE"}
	}

	var rows [][]string
	for _, o := range g.Overview() {
		if wide {
			rows = append(rows, []string{o.Version, joinOrNone(o.Updates), joinOrNone(o.Conditional), joinOrNone(o.Channels()), o.Payload})
			continue
		}
		newest := "<none>"
		if len(o.Updates) > 0 {
			newest = o.Updates[0]
		}
		rows = append(rows, []string{o.Version, strconv.Itoa(len(o.Updates)), strconv.Itoa(len(o.Conditional)), newest})
	}

	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "The graph has no releases: the channel does not exist, or it is empty for the architecture.")
		return err
	}

	return terminal.PrintTable(w, headers, rows)
}

func joinOrNone(texts []string) string {
	if len(texts) == 0 {
		return "<none>"
	}
	return strings.Join(texts, ",")
}

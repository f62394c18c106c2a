package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/updates"
	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// Formats of drawings.
const (
	formatMermaid = "mermaid"
	formatDOT     = "dot"
	formatSVG     = "svg"
)

func updatesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "updates",
		Short: "Look at the update graphs of clusters",
		Args:  cobra.ArbitraryArgs,
		RunE:  terminal.Group,
	}

	cmd.AddCommand(updatesGraphCommand())
	return cmd
}

func updatesGraphCommand() *cobra.Command {
	graph := updates.Graph{Program: terminal.Version()}
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "graph SOURCE",
		Short: "Show or draw an update graph",
		Long: `Show the update graph of a channel, as an update service tells it to clusters: for each
release how many updates there are, with and without known issues. It can be drawn as a
flowchart for Mermaid, which Markdown pages show, as a picture in SVG, or in DOT for
Graphviz.

SOURCE is the URL of an update service, or a file with a graph as JSON.`,
		Example: `  mainstay updates graph http://localhost:8081/api/upgrades_info/graph --channel stable-1.4
  mainstay updates graph https://updates.example.com/api/upgrades_info/graph --channel stable-1.4 --arch arm64 --from 1.3.7 -o svg
  mainstay updates graph graph.json -o mermaid`,
		Args: terminal.Takes("SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			graph.Source = args[0]
			g, err := graph.Run(cmd.Context())
			if err != nil {
				return err
			}
			return printGraph(cmd.OutOrStdout(), out.Format, g)
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&graph.Channel, "channel", "", "channel to ask an update service for")
	flags.StringVar(&graph.Architecture, "arch", "", "architecture to ask for, as Go names it, or multi (default: the service's)")
	flags.StringVar(&graph.From, "from", "", "only what a cluster of this version can come to, over as many updates as it takes")
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatWide, formatMermaid, formatDOT, formatSVG)

	return cmd
}

func printGraph(w io.Writer, format string, g *cincinnati.Graph) error {
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
			rows = append(rows, []string{o.Version, orNone(o.Updates), orNone(o.Conditional), orNone(o.Channels()), o.Payload})
			continue
		}
		newest := "<none>"
		if len(o.Updates) > 0 {
			newest = o.Updates[0]
		}
		rows = append(rows, []string{o.Version, strconv.Itoa(len(o.Updates)), strconv.Itoa(len(o.Conditional)), newest})
	}

	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "The graph has no releases: nobody serves such a channel, or it is empty for the architecture.")
		return err
	}

	return terminal.PrintTable(w, headers, rows)
}

func orNone(texts []string) string {
	if len(texts) == 0 {
		return "<none>"
	}
	return strings.Join(texts, ",")
}

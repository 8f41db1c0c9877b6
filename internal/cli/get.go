package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// query is what is asked for.
type query struct {
	admin
	kind          kind
	match, format string
	limit         int
}

// mostRows is how many the admin listener gives at once.
const mostRows = 10_000

// getCommand shows what a running serve has.
func getCommand(now func() time.Time) *cobra.Command {
	q := query{}
	cmd := &cobra.Command{
		Use:       "get KIND | get table NAME",
		Short:     "Show what a running spillway serve knows and does",
		Long:      "Show what a running `spillway serve` knows and does, read from its admin listener.\n\n" + help(),
		Example:   "  spillway get findings\n  spillway get hosts --match shop.example\n  spillway get members -o wide\n  spillway get streams -o json\n  spillway get table paths",
		Args:      func(_ *cobra.Command, args []string) error { return q.choose(args) },
		ValidArgs: each(kinds, func(k kind) cobra.Completion { return cobra.CompletionWithDesc(k.name, k.about) }),
		PreRunE:   func(*cobra.Command, []string) error { return q.validate() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return q.get(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), now())
		},
	}
	f := cmd.Flags()
	q.flags(f)
	f.StringVar(&q.match, "match", "", "only those whose name contains this: of hosts the host name and the front, of plans the backend and the place, of findings the object")
	f.IntVar(&q.limit, "limit", 1000, "how many at most, up to "+strconv.Itoa(mostRows))
	f.StringVarP(&q.format, "output", "o", "table", "table, wide, json or yaml")
	return cmd
}

// help lists what can be shown.
func help() string {
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %-10s %s\n", k.name, k.about)
	}
	fmt.Fprintf(&b, "  %-10s %s, as text: another with each version", "table NAME", rows.about)
	return b.String()
}

// choose says what the arguments ask for.
func (q *query) choose(args []string) error {
	names := each(kinds, func(k kind) string { return k.name })
	switch {
	case len(args) == 0:
		return errors.New("say what to show: " + strings.Join(names, ", ") + ", or table NAME")
	case args[0] == "table" && len(args) == 2:
		q.kind = rows
		q.kind.path = "/v1/tables/" + url.PathEscape(args[1])
		return nil
	case args[0] == "table" && len(args) < 2:
		return errors.New("say which table: `spillway get tables` lists them")
	case len(args) > 1:
		return fmt.Errorf("one kind at a time, and --match for a name: %q is too much", args[len(args)-1])
	}
	for _, k := range kinds {
		if k.name == args[0] || k.name == args[0]+"s" {
			q.kind = k
			q.kind.path = "/v1/" + k.name
			return nil
		}
	}
	err := fmt.Sprintf("there is nothing called %q to show: use %s, or table NAME", args[0], strings.Join(names, ", "))
	if near := Nearest(args[0], names); near != "" {
		err += fmt.Sprintf("; did you mean %q?", near)
	}
	return errors.New(err)
}

func (q *query) validate() error {
	if q.limit < 1 || q.limit > mostRows {
		return fmt.Errorf("--limit %d: use 1 to %d", q.limit, mostRows)
	}
	return cmp.Or(checkFormat(q.format, "table", "wide", "json", "yaml"), q.admin.validate())
}

func (q *query) get(ctx context.Context, w, errs io.Writer, now time.Time) error {
	body, more, err := q.fetch(ctx, q.kind.path+"?"+url.Values{"match": {q.match}, "limit": {strconv.Itoa(q.limit)}}.Encode())
	if err != nil {
		return err
	}
	switch q.format {
	case "json", "yaml":
		err = encode(w, q.format, body)
	default:
		var cells [][]string
		if cells, err = q.kind.cells(body, now); err == nil {
			err = table(w, q.kind.heads, cells, q.format == "wide")
		}
	}
	if err == nil && more {
		fmt.Fprintf(errs, "these are the first %d: give --match or a larger --limit\n", q.limit)
	}
	return err
}

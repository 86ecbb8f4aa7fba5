package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/aaravsoft/leasehold/store"
)

// askLimit bounds one question to the store.
const askLimit = 10 * time.Second

// row is a lease in JSON. It has no token: that is for the holder's own command alone.
type row struct {
	Name        string    `json:"name"`
	Owner       string    `json:"owner"`
	Metadata    string    `json:"metadata"`
	Acquired    time.Time `json:"acquired"`
	Renewed     time.Time `json:"renewed"`
	Expires     time.Time `json:"expires"`
	LeftSeconds float64   `json:"left_seconds"`
	Expired     bool      `json:"expired"`
}

// writeJSON writes a lease as one line.
func writeJSON(w io.Writer, l store.Lease) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return output(enc.Encode(row{
		Name: l.Name, Owner: l.Owner, Metadata: l.Metadata,
		Acquired: l.Acquired.UTC(), Renewed: l.Renewed.UTC(), Expires: l.Expires.UTC(),
		LeftSeconds: l.Left.Seconds(), Expired: expired(l),
	}))
}

func expired(l store.Lease) bool { return l.Left <= 0 }

// left says how long a lease has got.
func left(l store.Lease) string {
	if expired(l) {
		return "expired"
	}
	return "in " + span(l.Left)
}

// columns aligns lines of cells, and trims what aligning leaves at their ends.
func columns(w io.Writer, lines [][]string) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	tw.Flush()
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return output(err)
}

// output gives an error of standard output its code.
func output(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{codeSystem, fmt.Errorf("cannot write the output: %w", err)}
}

// nameArg wants exactly one NAME, and a good one.
func nameArg(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usagef("NAME is missing")
	case 1:
		return store.ValidateName(args[0])
	}
	return usagef("one NAME at a time: what is %q?", args[1])
}

// completeName offers the names in the store to the shell. It says nothing, whatever happens.
func (a *app) completeName(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, directive
	}
	a.notices.loud = quiet
	st, err := a.openExisting()
	if err != nil {
		return nil, directive
	}
	defer st.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	var names []string
	for l, err := range st.List(ctx, prefix) {
		if err != nil {
			break
		}
		if plain(l.Name) == l.Name { // nothing that commands the terminal
			names = append(names, l.Name)
		}
	}
	return names, directive
}

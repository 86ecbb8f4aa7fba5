package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/aaravsoft/leasehold/store"
)

type listFlags struct {
	json, watch bool
}

func (a *app) newList() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List the locks whose names start with PREFIX",
		Long: `List the locks whose names start with PREFIX, or all: who holds them, since when,
and until when if they are not renewed. An expired row is free; it is listed
until somebody takes it or sweeps it away.`,
		Example: `  leasehold list
  leasehold list invoices/ --watch
  leasehold list --json | jq -r 'select(.expired | not) | .name'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("one PREFIX at a time: what is %q?", args[1])
			}
			return nil
		},
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.list(cmd.Context(), append(args, "")[0], f)
		},
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object a line")
	cmd.Flags().BoolVar(&f.watch, "watch", false, "list again every second, until interrupted")
	return cmd
}

const watchInterval = time.Second

func (a *app) list(ctx context.Context, prefix string, f listFlags) error {
	st, err := a.openExisting()
	if err != nil {
		return err
	}
	defer st.Close()
	if !f.watch {
		return a.listOnce(ctx, st, prefix, f, "")
	}
	lead := ""
	if !f.json && isTerminal(a.stdout) {
		lead = "\x1b[H\x1b[J" // go to the upper left, clear from there
	}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for first := true; ; first = false {
		if err := a.listOnce(ctx, st, prefix, f, lead); errors.Is(err, store.ErrUnavailable) && !first {
			a.notices.fault("%v", err) // it may come back
		} else if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// listOnce writes the whole list at once, so that a watched one does not flicker.
func (a *app) listOnce(ctx context.Context, st store.Inspector, prefix string, f listFlags, lead string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	out := bytes.NewBufferString(lead)
	lines := [][]string{{"NAME", "OWNER", "SINCE", "EXPIRES", "", "NOTE"}}
	for l, err := range st.List(ctx, prefix) {
		if err != nil {
			return err
		}
		if f.json {
			if err := writeJSON(out, l); err != nil {
				return err
			}
			continue
		}
		lines = append(lines, []string{
			plain(l.Name), plain(l.Owner), stamp(l.Acquired), stamp(l.Expires), left(l), plain(l.Metadata),
		})
	}
	if !f.json {
		if err := columns(out, lines); err != nil {
			return err
		}
	}
	_, err := out.WriteTo(a.stdout)
	return output(err)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

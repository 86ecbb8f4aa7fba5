package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aaravsoft/leasehold/store"
)

type breakFlags struct {
	owner string
	now   bool
}

func (a *app) newBreak() *cobra.Command {
	var f breakFlags
	cmd := &cobra.Command{
		Use:   "break NAME --owner OWNER",
		Short: "Take a lock away from its holder",
		Long: `Take a lock away from exactly the grant that "leasehold show NAME" has shown, so
that a newer holder is not hit.

The holder learns at its next renewal that it has lost the lock, and stops. The
row keeps its expiry, so nobody gets in before the holder would have stopped
anyway: there is one holder at any time, still.

With --now the row is deleted and the next one gets in at once, while the old
holder may go on until its next renewal. That breaks the promise of one holder:
use it only if you know that the holder is dead.

Exit code: 0 broken, 1 free or held by another grant.`,
		Example: `  leasehold show nightly
  leasehold break nightly --owner web1:4711/7h2k9q0rmbtd4x8c
  leasehold break nightly --owner web1:4711/7h2k9q0rmbtd4x8c --now`,
		Args:              nameArg,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.breakLock(cmd.Context(), args[0], f)
		},
	}
	cmd.Flags().StringVar(&f.owner, "owner", "", "the grant to break, as shown (required)")
	cmd.Flags().BoolVar(&f.now, "now", false, "free the name at once, even if the holder may still be at work")
	return cmd
}

func (a *app) breakLock(ctx context.Context, name string, f breakFlags) error {
	if f.owner == "" {
		return usagef("--owner OWNER is missing: leasehold show %s tells it", shellQuote(name))
	}
	claim := store.Claim{Name: name, Owner: f.owner}
	if err := claim.ValidateKey(); err != nil {
		return err
	}
	st, err := a.openExisting()
	if err != nil {
		return err
	}
	defer st.Close()
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	if f.now {
		return a.free(ctx, st, claim)
	}
	l, err := st.Break(ctx, name, f.owner)
	if errors.Is(err, store.ErrNotFound) {
		return a.noMatch(ctx, st, claim)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%q is taken away from %s; the next one can get in at %s (in %s)\n",
		name, plain(f.owner), stamp(l.Expires), span(max(l.Left, time.Millisecond)))
	return output(err)
}

// free deletes the row.
func (a *app) free(ctx context.Context, st leases, claim store.Claim) error {
	results, err := st.Release(ctx, []store.Claim{claim})
	if err == nil {
		err = results[0].Err
	}
	if errors.Is(err, store.ErrLost) {
		return a.noMatch(ctx, st, claim)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%q is taken away from %s; the next one can get in now\n", claim.Name, plain(claim.Owner))
	return output(err)
}

// noMatch says what there is instead.
func (a *app) noMatch(ctx context.Context, st store.Inspector, claim store.Claim) error {
	l, err := st.Get(ctx, claim.Name)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case err != nil || expired(l):
		return &exitError{codeNoMatch, fmt.Errorf("nothing to break: %q is free", claim.Name)}
	}
	return &exitError{codeNoMatch, fmt.Errorf("nothing to break: %s", holder(l))}
}

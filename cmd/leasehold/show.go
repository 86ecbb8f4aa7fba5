package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aaravsoft/leasehold/store"
)

func (a *app) newShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a lock, and how to break it",
		Long: `Show who holds a lock, since when, and until when if it is not renewed.

Exit code: 0 held, 1 free.`,
		Example: `  leasehold show nightly
  leasehold show nightly >/dev/null || echo free`,
		Args:              nameArg,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object, and nothing if there is no row")
	return cmd
}

func (a *app) show(ctx context.Context, name string, asJSON bool) error {
	st, err := a.openExisting()
	if err != nil {
		return err
	}
	defer st.Close()
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	l, err := st.Get(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if !asJSON {
			_, err := fmt.Fprintf(a.stdout, "%q is free\n", name)
			return errors.Join(output(err), exitWith(codeNoMatch))
		}
		return exitWith(codeNoMatch)
	case err != nil:
		return err
	case asJSON:
		err = writeJSON(a.stdout, l)
	default:
		err = a.showForPeople(l)
	}
	if err == nil && expired(l) {
		err = exitWith(codeNoMatch)
	}
	return err
}

func (a *app) showForPeople(l store.Lease) error {
	lines := [][]string{
		{"Name", plain(l.Name)},
		{"Owner", plain(l.Owner)},
		{"Since", stamp(l.Acquired)},
		{"Renewed", stamp(l.Renewed)},
		{"Expires", stamp(l.Expires) + " (" + left(l) + ")"},
	}
	if l.Metadata != "" {
		lines = append(lines, []string{"Note", plain(l.Metadata)})
	}
	switch {
	case expired(l):
		lines = append(lines, []string{"State", "free: nobody has renewed it"})
	case store.Disowned(l.Owner):
		lines = append(lines, []string{"State", "taken away from its holder; free when it expires"})
	case store.Claim{Name: l.Name, Owner: l.Owner}.ValidateKey() != nil:
		lines = append(lines, []string{"State", "held, by something else than leasehold; it can be deleted in the database alone"})
	default:
		lines = append(lines, []string{"To break", a.breakCommand(l)})
	}
	return columns(a.stdout, lines)
}

// breakCommand is what to type to break exactly this grant.
func (a *app) breakCommand(l store.Lease) string {
	words := []string{"leasehold", "break", l.Name, "--owner", l.Owner}
	if flag := a.root.PersistentFlags().Lookup("store"); flag.Changed {
		if safe, ok := withoutPassword(flag.Value.String()); ok {
			words = append(words, "--store", safe)
		}
	}
	for _, name := range []string{"schema", "table", "password-file"} {
		if flag := a.root.PersistentFlags().Lookup(name); flag.Changed {
			words = append(words, "--"+name, flag.Value.String())
		}
	}
	if strings.HasPrefix(l.Name, "-") { // or it would be taken for a flag
		words = append(append([]string{"leasehold", "break"}, words[3:]...), "--", l.Name)
	}
	for i, word := range words {
		words[i] = shellQuote(word)
	}
	return strings.Join(words, " ")
}

// shellQuote quotes a word for a POSIX shell, if it must be.
func shellQuote(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,@%+=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

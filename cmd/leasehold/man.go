package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan writes the manual from the same source as --help. The date on the pages is that of $SOURCE_DATE_EPOCH, if
// set, so that builds can be repeated.
func (a *app) newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the manual pages into a folder",
		Hidden: true, // for those who make packages
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.root.DisableAutoGenTag = true
			return output(doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: "leasehold", Manual: "leasehold"}, args[0]))
		},
	}
}

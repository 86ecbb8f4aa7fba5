// Package simtest starts simulated SQL Servers for tests.
package simtest

import (
	"testing"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
)

// Run starts a server that is closed when the test has ended.
func Run(t testing.TB, options mssqlsim.Options) *mssqlsim.Server {
	t.Helper()
	s := mssqlsim.New(options)
	t.Cleanup(s.Close)
	return s
}

// RunGroup starts an availability group that is closed when the test has ended.
func RunGroup(t testing.TB, options mssqlsim.GroupOptions) *mssqlsim.Group {
	t.Helper()
	g := mssqlsim.NewGroup(options)
	t.Cleanup(g.Close)
	return g
}

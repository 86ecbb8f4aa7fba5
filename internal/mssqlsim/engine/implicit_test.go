package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
)

// TestImplicitTransactions is about a switch that a pool may turn on, and that the statements of a lease turn off.
func TestImplicitTransactions(t *testing.T) {
	n := engine.New(engine.Config{})
	a, b := login(t, n), login(t, n)
	a.exec("CREATE TABLE dbo.T (N INT NOT NULL)")
	a.exec("SET IMPLICIT_TRANSACTIONS ON")
	got := a.exec("INSERT INTO dbo.T (N) VALUES (1)")
	assert.Equal(t, []engine.TransactionChange{engine.TransactionBegun}, got.changes)
	assert.EqualValues(t, 1, a.value("SELECT @@TRANCOUNT"))
	a.Reset()
	assert.EqualValues(t, 0, b.value("SELECT COUNT(*) FROM dbo.T"), "the reset has rolled it back")
	a.exec("SET IMPLICIT_TRANSACTIONS ON; SET IMPLICIT_TRANSACTIONS OFF; INSERT INTO dbo.T (N) VALUES (1)")
	a.Reset()
	assert.EqualValues(t, 1, b.value("SELECT COUNT(*) FROM dbo.T"))
}

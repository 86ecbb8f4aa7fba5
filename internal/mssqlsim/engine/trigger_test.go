package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
)

// TestInsteadOf: such a trigger is in the catalog, and what it would replace is refused rather than executed.
func TestInsteadOf(t *testing.T) {
	n := engine.New(engine.Config{})
	c := login(t, n)
	c.exec("CREATE TABLE dbo.T (N INT NOT NULL)")
	c.exec("EXEC (N'CREATE TRIGGER dbo.Keep ON dbo.T INSTEAD OF DELETE AS BEGIN SELECT 1; END')")
	assert.Equal(t, true, c.value("SELECT is_instead_of_trigger FROM sys.triggers WHERE name = N'Keep'"))
	c.exec("INSERT INTO dbo.T (N) VALUES (1)")
	c.fails(sqlerr.NumberUnsupported, "DELETE FROM dbo.T")
	assert.EqualValues(t, 1, c.value("SELECT COUNT(*) FROM dbo.T"))
}

func TestCompatibilityLevel(t *testing.T) {
	n := engine.New(engine.Config{})
	c := login(t, n)
	const ask = "SELECT compatibility_level FROM sys.databases WHERE name = DB_NAME()"
	assert.EqualValues(t, 160, c.value(ask))
	n.SetCompatibilityLevel(120)
	assert.EqualValues(t, 120, c.value(ask))
}

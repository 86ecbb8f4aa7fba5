package mssql

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/syntax"
)

// allTexts are the statements of a table, by name.
func allTexts(t table) map[string]string {
	all := map[string]string{"schema": t.script(), "collation": collationSQL, "columns": columnsSQL, "keys": keysSQL, "triggers": triggersSQL, "database": databaseSQL}
	for _, list := range []any{*newStatements(t), *newBatches(t, "SQL_Latin1_General_CP1_CI_AS")} {
		v := reflect.ValueOf(list)
		for i := range v.NumField() {
			for n := range lockWaits {
				all[fmt.Sprintf("%s, lock timeout %s", v.Type().Field(i).Name, lockWaits[n].wait)] = v.Field(i).Index(n).String()
			}
		}
	}
	return all
}

// TestStatementsParse is a net for slips: the grammar is that of T-SQL, from somebody else (teesql).
func TestStatementsParse(t *testing.T) {
	for _, names := range []table{{"lease", "Leases"}, {"a]b", "le'ase; --"}} {
		for name, text := range allTexts(names) {
			_, err := syntax.Parse(text)
			assert.NoError(t, err, "%s: %s", name, text)
			assert.NotContains(t, strings.ReplaceAll(text, names.String(), ""), "{", "a fragment is not filled in: %s", name)
		}
	}
	_, err := syntax.Parse("UPDAT x SET a = 1")
	require.Error(t, err, "or this test proves nothing")
}

// TestLockTimeouts: the server gives up long before the client does.
func TestLockTimeouts(t *testing.T) {
	all := newStatements(table{"lease", "Leases"})
	for ttl := 200 * time.Millisecond; ttl < 24*time.Hour; ttl = ttl * 11 / 10 {
		var wait int
		_, rest, found := strings.Cut(all.acquire.within(ttl), "SET LOCK_TIMEOUT ")
		require.True(t, found)
		_, err := fmt.Sscan(strings.TrimSuffix(strings.Fields(rest)[0], ";"), &wait)
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Duration(wait)*time.Millisecond, ttl/20)
		assert.Positive(t, wait)
	}
}

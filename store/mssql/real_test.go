package mssql_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
	"github.com/aaravsoft/leasehold/store/storetest"
)

// dsnVar names a real server. TESTING.md says how to start one.
const dsnVar = "LEASEHOLD_MSSQL_DSN"

// TestRealServer is what runs on a real server too. One that does not answer fails here, once.
func TestRealServer(t *testing.T) {
	dsn := os.Getenv(dsnVar)
	if dsn == "" {
		t.Skip("no real server: " + dsnVar + " names none")
	}
	db, err := sql.Open("sqlserver", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	require.NoError(t, db.PingContext(ctx), "%s is set, and the server does not answer", dsnVar)

	t.Run("scripts", func(t *testing.T) {
		scripts(t, func(t *testing.T, file, golden string) {
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), transcript(t, db, file))
		})
	})

	t.Run("conformance", func(t *testing.T) {
		run := time.Now().UnixNano()
		var tables atomic.Int64
		configs := &servers[mssql.Config]{list: map[store.Store]mssql.Config{}}
		another := func(t *testing.T, cfg mssql.Config) *mssql.Store {
			t.Helper()
			s, err := mssql.Open(dsn, cfg)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			configs.put(s, cfg)
			return s
		}
		storetest.Run(t, storetest.Harness{
			Open: func(t *testing.T) store.Store {
				cfg := mssql.Config{Schema: "leasehold_test", Table: fmt.Sprintf("Run %d case %d", run, tables.Add(1))}
				t.Cleanup(func() { exec(t, db, "DROP TABLE [leasehold_test].["+cfg.Table+"]") })
				s := another(t, cfg)
				require.NoError(t, s.EnsureSchema(t.Context()))
				return s
			},
			Second:      func(t *testing.T, first store.Store) store.Store { return another(t, configs.of(first)) },
			Granularity: time.Microsecond,
			Short:       200 * time.Millisecond,
			Slack:       20 * time.Millisecond,
			Rounds:      3,
			PageSize:    500,
		})
	})
}

package benchmarks

import (
	"context"
	"database/sql"
	"os"
	"testing"
	"time"

	mssqldb "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/simtest"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// BenchmarkSQLServer is what the operations cost beside `SELECT 1` on the same server, in the same run: on the simulated
// server, and on the one that LEASEHOLD_MSSQL_DSN names.
func BenchmarkSQLServer(b *testing.B) {
	b.Run("simulator", func(b *testing.B) { onServer(b, simtest.Run(b, mssqlsim.Options{}).DSN()) })
	if dsn := os.Getenv("LEASEHOLD_MSSQL_DSN"); dsn != "" {
		b.Run("server", func(b *testing.B) { onServer(b, dsn) })
	}
}

func onServer(b *testing.B, dsn string) {
	ctx := context.Background()
	st, err := mssql.Open(dsn, mssql.Config{Schema: "leasehold", Table: "Benchmark"})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, st.Close()) })
	require.NoError(b, st.EnsureSchema(ctx))
	db, err := sql.Open("sqlserver", dsn)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	require.NoError(b, db.PingContext(ctx))

	floor := measure(b, "select 1", 0, func() error {
		var one int
		rows, err := db.QueryContext(ctx, "SELECT @p1", 1)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&one); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	measure(b, "acquire and release", floor, func() error { return acquireAndRelease(ctx, st, "bare") })
	held := store.Claim{Name: "held", Owner: store.NewOwner("bench"), TTL: time.Hour}
	_, err = st.Acquire(ctx, held)
	require.NoError(b, err)
	measure(b, "renew", floor, func() error {
		_, err := st.Renew(ctx, []store.Claim{held})
		return err
	})
	_, err = st.Release(ctx, []store.Claim{held})
	require.NoError(b, err)
	locks := client(b, st, mutex.Config{})
	measure(b, "lock and unlock", floor, func() error { return lockAndUnlock(ctx, locks) })
}

// measure returns the time of one operation. With a floor it reports how many of those it takes.
func measure(b *testing.B, name string, floor time.Duration, op func() error) (each time.Duration) {
	b.Run(name, func(b *testing.B) {
		loop(b, op)
		each = b.Elapsed() / time.Duration(b.N)
		if floor > 0 {
			b.ReportMetric(float64(each)/float64(floor), "x-select-1")
		}
	})
	return each
}

func acquireAndRelease(ctx context.Context, st store.Store, name string) error {
	c := store.Claim{Name: name, Owner: store.NewOwner("bench"), TTL: 30 * time.Second}
	if _, err := st.Acquire(ctx, c); err != nil {
		return err
	}
	_, err := st.Release(ctx, []store.Claim{c})
	return err
}

func lockAndUnlock(ctx context.Context, locks *mutex.Client) error {
	g, err := locks.Lock(ctx, "lock")
	if err != nil {
		return err
	}
	return g.Unlock()
}

// share is a driver that answers at once from memory, below the pool of database/sql, below the store, below the lock: what
// these cost without any server.
type share struct {
	db    *sql.DB
	store *mssql.Store
	locks *mutex.Client
}

func newShare(tb testing.TB) *share {
	db := sql.OpenDB(instant{})
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	st, err := mssql.New(db, mssql.Config{})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, st.Close()) })
	return &share{db: db, store: st, locks: client(tb, st, mutex.Config{})}
}

// pool is the floor: the two calls of an acquisition and a release, bare.
func (r *share) pool(ctx context.Context) error {
	name, owner := mssqldb.NVarCharMax("lock"), mssqldb.NVarCharMax("owner")
	if err := bareCall(ctx, r.db, "SELECT [RowVersion]", 9, name, owner, 30000, mssqldb.NVarCharMax("")); err != nil {
		return err
	}
	return bareCall(ctx, r.db, "SELECT", 8, name, owner)
}

// BenchmarkShare is the cost of two operations, an acquisition and a release. The differences are the shares: of the pool
// ("pool", which is the floor), of the store, and of the lock.
func BenchmarkShare(b *testing.B) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // as every call that is to end some time
	defer cancel()
	r := newShare(b)
	bare := func() error { return r.pool(ctx) }
	lock := func() error { return lockAndUnlock(ctx, r.locks) }
	measure(b, "pool", 0, bare)
	measure(b, "store", 0, func() error { return acquireAndRelease(ctx, r.store, "lock") })
	b.Run("lock", func(b *testing.B) {
		loop(b, lock)
		reportAllocs(b, bare, lock)
	})
}

// bareCall is the least that a call can do: take a connection, send, read the answer to its end.
func bareCall(ctx context.Context, db *sql.DB, text string, columns int, args ...any) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	rows, err := conn.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var code int64
	var now, acquired, renewed, expires time.Time
	var name, owner string
	var metadata sql.NullString
	var version []byte
	for rows.Next() {
		if err := rows.Scan([]any{&code, &now, &name, &owner, &acquired, &renewed, &expires, &metadata, &version}[:columns]...); err != nil {
			return err
		}
	}
	return rows.Err()
}

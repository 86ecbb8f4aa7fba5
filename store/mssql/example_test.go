package mssql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	mssqldb "github.com/microsoft/go-mssqldb"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// connect stands for whatever knows the database of a service.
func connect() (dsn string, done func()) {
	sim := mssqlsim.New(mssqlsim.Options{})
	return sim.DSN(), sim.Close
}

func ExampleOpen() {
	dsn, done := connect() // "sqlserver://user:password@host?database=name"
	defer done()

	st, err := mssql.Open(dsn, mssql.Config{})
	if err != nil {
		panic(err)
	}
	defer st.Close()
	ctx := context.Background()
	if err := st.EnsureSchema(ctx); err != nil {
		panic(err)
	}
	locks, err := mutex.New(st, mutex.Config{})
	if err != nil {
		panic(err)
	}
	err = locks.Do(ctx, "invoice-batch", func(context.Context) error {
		fmt.Println("one at a time")
		return nil
	})
	fmt.Println(err)
	// Output:
	// one at a time
	// <nil>
}

func ExampleNew() {
	dsn, done := connect()
	defer done()
	db, err := sql.Open("sqlserver", dsn) // the application's own pool
	if err != nil {
		panic(err)
	}
	defer db.Close()

	st, err := mssql.New(db, mssql.Config{Schema: "app", Table: "Locks"})
	if err != nil {
		panic(err)
	}
	defer st.Close() // does not close db
	fmt.Println(st.EnsureSchema(context.Background()))
	// Output: <nil>
}

func ExampleOpenConnector() {
	dsn, done := connect()
	defer done()
	// For example azuread.NewConnector, or this one with a token:
	connector, err := mssqldb.NewConnector(dsn + "&connection+timeout=12")
	if err != nil {
		panic(err)
	}
	st, err := mssql.OpenConnector(connector, mssql.Config{})
	if err != nil {
		panic(err)
	}
	defer st.Close()
	fmt.Println(st.EnsureSchema(context.Background()))
	// Output: <nil>
}

func ExampleStore_EnsureSchema() {
	dsn, done := connect()
	defer done()
	st, err := mssql.Open(dsn, mssql.Config{})
	if err != nil {
		panic(err)
	}
	defer st.Close()
	ctx := context.Background()
	_, err = st.Get(ctx, "job")
	fmt.Println(errors.Is(err, store.ErrMisconfigured))
	fmt.Println(st.EnsureSchema(ctx))
	_, err = st.Get(ctx, "job")
	fmt.Println(err)
	// Output:
	// true
	// <nil>
	// no such lease: "job"
}

func ExampleStore_List() {
	dsn, done := connect()
	defer done()
	st, err := mssql.Open(dsn, mssql.Config{})
	if err != nil {
		panic(err)
	}
	defer st.Close()
	ctx := context.Background()
	if err := st.EnsureSchema(ctx); err != nil {
		panic(err)
	}
	for _, name := range []string{"job/b", "job/a", "other"} {
		claim := store.Claim{Name: name, Owner: store.NewOwner("host:1"), TTL: time.Minute}
		if _, err := st.Acquire(ctx, claim); err != nil {
			panic(err)
		}
	}
	for lease, err := range st.List(ctx, "job/") {
		fmt.Println(lease.Name, lease.Left > 50*time.Second, err)
	}
	// Output:
	// job/a true <nil>
	// job/b true <nil>
}

func ExampleStore_Break() {
	dsn, done := connect()
	defer done()
	st, err := mssql.Open(dsn, mssql.Config{})
	if err != nil {
		panic(err)
	}
	defer st.Close()
	ctx := context.Background()
	if err := st.EnsureSchema(ctx); err != nil {
		panic(err)
	}
	claim := store.Claim{Name: "job", Owner: store.NewOwner("host:1"), TTL: time.Minute}
	granted, err := st.Acquire(ctx, claim)
	if err != nil {
		panic(err)
	}
	broken, err := st.Break(ctx, granted.Name, granted.Owner)
	fmt.Println(err, broken.Expires.Equal(granted.Expires)) // nobody enters before the lease would have ended
	results, err := st.Renew(ctx, []store.Claim{claim})
	fmt.Println(err, errors.Is(results[0].Err, store.ErrLost)) // and the holder learns of it
	// Output:
	// <nil> true
	// <nil> true
}

func ExampleGrants() {
	script, err := mssql.Grants(mssql.Config{}, "invoice service")
	fmt.Print(script, err, "\n")
	// Output:
	// GRANT SELECT, INSERT, UPDATE, DELETE ON [lease].[Leases] TO [invoice service];
	// <nil>
}

func ExampleSchema() {
	script, err := mssql.Schema(mssql.Config{Schema: "app", Table: "Locks"})
	fmt.Println(len(script) > 500, err)
	// Output: true <nil>
}

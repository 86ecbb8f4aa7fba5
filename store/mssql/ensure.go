package mssql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/aaravsoft/leasehold/store"
)

const (
	columnsSQL = `SET NOCOUNT ON; SELECT c.name, y.name, c.max_length, c.scale, c.is_nullable, c.default_object_id, c.is_identity, c.is_computed
	FROM sys.columns AS c JOIN sys.types AS y ON y.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID(@p1) ORDER BY c.column_id;`

	// keysSQL lists the columns of unique indexes: index, column.
	keysSQL = `SET NOCOUNT ON; SELECT i.index_id, c.name FROM sys.indexes AS i
	JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
	JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
	WHERE i.object_id = OBJECT_ID(@p1) AND i.is_unique = 1 AND i.has_filter = 0 AND i.is_disabled = 0 AND k.is_included_column = 0;`

	triggersSQL = `SET NOCOUNT ON; SELECT name FROM sys.triggers
	WHERE parent_id = OBJECT_ID(@p1) AND is_instead_of_trigger = 1 AND is_disabled = 0 ORDER BY name;`

	databaseSQL = `SET NOCOUNT ON; DECLARE @any NVARCHAR(1) = @p1;
SELECT compatibility_level, delayed_durability_desc FROM sys.databases WHERE name = DB_NAME();`
)

// EnsureSchema creates the table, and its schema, if they are missing, and checks them if they are there. It alters
// nothing, is safe to be called by many at once, and needs no right to create anything if everything exists.
//
// All differences are in one error, of class [store.ErrMisconfigured]: columns, types and lengths, the unique key, triggers
// that replace a statement, and settings of the database under which leases are not safe. What makes no difference is not
// reported: further columns that need no value, further indexes, AFTER triggers, the collation of a table that the .NET
// package has made.
func (s *Store) EnsureSchema(ctx context.Context) error {
	exists, err := s.checkTable(ctx)
	if err != nil || exists {
		return err
	}
	if err := s.create(ctx); err != nil {
		return err
	}
	if exists, err = s.checkTable(ctx); err == nil && !exists {
		err = &store.MisconfiguredError{Remedy: "the table " + s.table.String() + " exists, but this login must not see it: grant it the " +
			"rights with the script of Grants (leasehold schema --grant PRINCIPAL)"}
	}
	return err
}

// create runs the script. It has no parameters, so the driver gets one that nothing reads: without any it would send the
// batch in a way that can block the connection for ever after an error.
func (s *Store) create(ctx context.Context) error {
	return s.pool.query(ctx, call{op: "create the table", other: true, sql: s.table.script() + "SELECT @p1;", args: []any{1}},
		func() {}, func(*sql.Rows) error { return nil })
}

// checkTable reports whether the table exists, and what is wrong with it.
func (s *Store) checkTable(ctx context.Context) (exists bool, err error) {
	var wrong []string
	columns, err := s.readColumns(ctx)
	if err != nil {
		return false, err
	}
	if len(columns) > 0 {
		wrong = append(wrong, compare(columns)...)
		for _, check := range []func(context.Context) ([]string, error){s.checkKey, s.checkTriggers} {
			found, err := check(ctx)
			if err != nil {
				return true, err
			}
			wrong = append(wrong, found...)
		}
	}
	ofDatabase, err := s.checkDatabase(ctx)
	if err != nil {
		return true, err
	}
	if wrong = append(wrong, ofDatabase...); len(wrong) > 0 {
		return true, &store.MisconfiguredError{Remedy: fmt.Sprintf("%s cannot keep leases: %s; the script of Schema (leasehold schema) "+
			"shows how it must be; nothing was changed", s.table, strings.Join(wrong, "; "))}
	}
	return len(columns) > 0, nil
}

// look reads the rows of a query on the catalog about the table.
func (s *Store) look(ctx context.Context, text string, scan func(*sql.Rows) error) error {
	return s.pool.query(ctx, call{op: "check the table", other: true, sql: text, args: []any{nvarchar(s.table.String())}}, func() {}, scan)
}

// column is one of the table, as the catalog shows it.
type column struct {
	name, typ     string
	length, scale int
	nullable      bool
	fallback      int  // not zero: it has a default
	numbered      bool // the server counts: IDENTITY
	computed      bool
}

func (s *Store) readColumns(ctx context.Context) (list []column, err error) {
	err = s.look(ctx, columnsSQL, func(rows *sql.Rows) error {
		var c column
		err := rows.Scan(&c.name, &c.typ, &c.length, &c.scale, &c.nullable, &c.fallback, &c.numbered, &c.computed)
		list = append(list, c)
		return err
	})
	return list, err
}

// wanted are the columns of the table: the length is in bytes, the least that will do.
var wanted = []column{
	{name: "LeaseName", typ: "nvarchar", length: 400},
	{name: "OwnerInstanceId", typ: "nvarchar", length: 256},
	{name: "AcquiredAtUtc", typ: "datetimeoffset", scale: 7},
	{name: "RenewedAtUtc", typ: "datetimeoffset", scale: 7},
	{name: "ExpiresAtUtc", typ: "datetimeoffset", scale: 7},
	{name: "Metadata", typ: "nvarchar", length: 2048, nullable: true},
	{name: "RowVersion", typ: "timestamp"},
}

// compare lists the differences between a table and what it must be.
func compare(columns []column) (wrong []string) {
	for _, want := range wanted {
		i := slices.IndexFunc(columns, func(c column) bool { return strings.EqualFold(c.name, want.name) })
		if i < 0 {
			wrong = append(wrong, "column "+want.name+" is missing")
			continue
		}
		got := columns[i]
		switch {
		case !strings.EqualFold(got.typ, want.typ):
			wrong = append(wrong, fmt.Sprintf("column %s is of type %s, not %s", want.name, got.typ, want.typ))
		case want.length > 0 && got.length >= 0 && got.length < want.length: // -1 is MAX
			wrong = append(wrong, fmt.Sprintf("column %s holds %d characters, not %d", want.name, got.length/2, want.length/2))
		case got.scale != want.scale:
			wrong = append(wrong, fmt.Sprintf("column %s has %d fractional digits, not %d", want.name, got.scale, want.scale))
		case want.nullable && !got.nullable:
			wrong = append(wrong, "column "+want.name+" must allow NULL")
		}
	}
	for _, got := range columns {
		known := slices.ContainsFunc(wanted, func(want column) bool { return strings.EqualFold(want.name, got.name) })
		if !known && !got.nullable && got.fallback == 0 && !got.numbered && !got.computed {
			wrong = append(wrong, fmt.Sprintf("further column %q must allow NULL or have a default", got.name))
		}
	}
	return wrong
}

func (s *Store) checkKey(ctx context.Context) ([]string, error) {
	keys := map[int][]string{}
	err := s.look(ctx, keysSQL, func(rows *sql.Rows) error {
		var index int
		var name string
		err := rows.Scan(&index, &name)
		keys[index] = append(keys[index], name)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, columns := range keys {
		if len(columns) == 1 && strings.EqualFold(columns[0], "LeaseName") {
			return nil, nil
		}
	}
	return []string{"LeaseName alone must be the primary key: without it a name can have two holders"}, nil
}

func (s *Store) checkTriggers(ctx context.Context) (wrong []string, err error) {
	err = s.look(ctx, triggersSQL, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		wrong = append(wrong, fmt.Sprintf("trigger %q replaces a statement (INSTEAD OF)", name))
		return err
	})
	return wrong, err
}

func (s *Store) checkDatabase(ctx context.Context) (wrong []string, err error) {
	err = s.look(ctx, databaseSQL, func(rows *sql.Rows) error {
		var level int
		var durability sql.NullString
		if err := rows.Scan(&level, &durability); err != nil {
			return err
		}
		if level < 130 {
			wrong = append(wrong, fmt.Sprintf("the compatibility level of the database is %d, and OPENJSON needs 130", level))
		}
		if strings.EqualFold(durability.String, "FORCED") {
			wrong = append(wrong, "the database has DELAYED_DURABILITY = FORCED: a crash or a failover would forget leases that were granted")
		}
		return nil
	})
	return wrong, err
}

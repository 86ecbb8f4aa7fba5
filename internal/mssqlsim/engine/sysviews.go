package engine

import (
	"strings"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// systemView makes a source of a view of the schema sys: those columns of it that the simulator fills.
func (c *compiler) systemView(s *source, name string) error {
	views := map[string]struct {
		columns string
		list    func(*env, *rows.Catalog) []rows.Row
	}{
		"schemas":       {"name:s schema_id:i", listSchemas},
		"tables":        {"name:s object_id:i schema_id:i type:s", listTables},
		"objects":       {"name:s object_id:i schema_id:i type:s", listTables},
		"columns":       {"object_id:i name:s column_id:i system_type_id:t user_type_id:i max_length:h precision:t scale:t collation_name:s is_nullable:b is_identity:b is_computed:b default_object_id:i", listColumns},
		"types":         {"name:s system_type_id:t user_type_id:i", listTypes},
		"indexes":       {"object_id:i name:s index_id:i type:t type_desc:s is_unique:b is_primary_key:b is_disabled:b has_filter:b", listIndexes},
		"index_columns": {"object_id:i index_id:i index_column_id:i column_id:i key_ordinal:t is_descending_key:b is_included_column:b", listIndexColumns},
		"triggers":      {"name:s object_id:i parent_id:i is_disabled:b is_instead_of_trigger:b", listTriggers},
		"databases":     {"name:s database_id:i collation_name:s compatibility_level:t state_desc:s is_read_only:b is_read_committed_snapshot_on:b delayed_durability_desc:s snapshot_isolation_state_desc:s", listDatabases},
	}
	view, known := views[rows.Fold(name)]
	if !known {
		return sqlerr.Unsupported("the view sys.%s", name)
	}
	// What names are compared with is the catalog's collation, which is the database's.
	types := map[string]value.Type{"s": value.TypeSysname, "i": value.TypeInt, "t": value.TypeTinyInt, "h": value.TypeSmallInt, "b": value.TypeBit}
	for column := range strings.FieldsSeq(view.columns) {
		name, typ, _ := strings.Cut(column, ":")
		s.columns = append(s.columns, rows.Column{Name: name, Type: types[typ], Nullable: true, Collation: c.session.node.collation})
	}
	s.fixed = true
	s.list = func(e *env) ([]rows.Row, error) {
		if err := e.waitForDDL(); err != nil {
			return nil, err
		}
		catalog, _ := e.session.catalog()
		return view.list(e, catalog), nil
	}
	return nil
}

func listSchemas(_ *env, catalog *rows.Catalog) (list []rows.Row) {
	for name, id := range catalog.Schemas {
		list = append(list, rows.Row{name, int64(id)})
	}
	return list
}

// visible are the tables that the session's user may know of.
func visible(e *env, catalog *rows.Catalog) (tables []*rows.Table) {
	for _, t := range catalog.Tables {
		if e.session.who.sees(catalog, t) {
			tables = append(tables, t)
		}
	}
	return tables
}

func listTables(e *env, catalog *rows.Catalog) (list []rows.Row) {
	for _, t := range visible(e, catalog) {
		list = append(list, rows.Row{t.Name, int64(t.ID), int64(catalog.Schemas[t.Schema]), "U "})
	}
	return list
}

// typeIDs are SQL Server's numbers of its types, with the precision that sys.columns shows.
var typeIDs = map[value.Kind]struct{ id, length, precision int64 }{
	value.Bit: {104, 1, 1}, value.TinyInt: {48, 1, 3}, value.SmallInt: {52, 2, 5}, value.Int: {56, 4, 10},
	value.BigInt: {127, 8, 19}, value.NVarChar: {231, 0, 0}, value.VarChar: {167, 0, 0}, value.Binary: {173, 0, 0},
	value.VarBinary: {165, 0, 0}, value.RowVersion: {189, 8, 0}, value.UniqueIdentifier: {36, 16, 0},
	value.DateTimeOffset: {43, 10, 34}, value.DateTime2: {42, 8, 27},
}

func listTypes(*env, *rows.Catalog) (list []rows.Row) {
	for kind, t := range typeIDs {
		list = append(list, rows.Row{value.Type{Kind: kind}.Name(), t.id, t.id})
	}
	return append(list, rows.Row{"sysname", int64(231), int64(256)})
}

// storedSize is max_length, precision and scale of sys.columns.
func storedSize(t value.Type) (length, precision, scale int64) {
	known := typeIDs[t.Kind]
	length, precision = known.length, known.precision
	switch {
	case t.Kind == value.NVarChar && t.Size != value.Max:
		length = int64(2 * t.Size)
	case t.IsString() || t.Kind == value.Binary || t.Kind == value.VarBinary:
		length = int64(t.Size)
	case t.IsTime():
		scale = int64(t.Scale)
		length -= (7 - scale + 1) / 2 // 5 bytes of time for 5 to 7 digits, 4 for 3 and 4, 3 for fewer
		length = max(length, known.length-2)
		precision -= 7 - scale
		if scale == 0 {
			precision-- // no point either
		}
	}
	return length, precision, scale
}

func listColumns(e *env, catalog *rows.Catalog) (list []rows.Row) {
	for _, t := range visible(e, catalog) {
		for i, column := range t.Columns {
			id := typeIDs[column.Type.Kind].id
			length, precision, scale := storedSize(column.Type)
			var collation any
			if column.Type.IsString() {
				collation = column.Collation.Name
			}
			list = append(list, rows.Row{int64(t.ID), column.Name, int64(i + 1), id, id, length, precision, scale,
				collation, column.Nullable, false, false, int64(0)})
		}
	}
	return list
}

func listIndexes(e *env, catalog *rows.Catalog) (list []rows.Row) {
	for _, t := range visible(e, catalog) {
		if len(t.Key) == 0 {
			list = append(list, rows.Row{int64(t.ID), nil, int64(0), int64(0), "HEAP", false, false, false, false})
		}
		for _, index := range t.Indexes {
			kind, description := int64(2), "NONCLUSTERED"
			if index.Clustered {
				kind, description = 1, "CLUSTERED"
			}
			list = append(list, rows.Row{int64(t.ID), index.Name, int64(index.ID), kind, description, index.Unique, index.Primary, false, false})
		}
	}
	return list
}

func listIndexColumns(e *env, catalog *rows.Catalog) (list []rows.Row) {
	for _, t := range visible(e, catalog) {
		for _, index := range t.Indexes {
			for i, place := range index.Columns {
				list = append(list, rows.Row{int64(t.ID), int64(index.ID), int64(i + 1), int64(place + 1), int64(i + 1), false, false})
			}
		}
	}
	return list
}

func listTriggers(e *env, catalog *rows.Catalog) (list []rows.Row) {
	for _, t := range visible(e, catalog) {
		for i, trigger := range t.Triggers {
			list = append(list, rows.Row{trigger.Name, int64(t.ID + i + 1), int64(t.ID), false, trigger.Instead})
		}
	}
	return list
}

func listDatabases(e *env, _ *rows.Catalog) []rows.Row {
	n := e.session.node
	return []rows.Row{{n.database, int64(5), n.collation.Name, n.compatibilityLevel(), "ONLINE", n.State() != Online, n.rcsi.Load(), n.delayedDurability(), "OFF"}}
}

package engine

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// assigned converts an operand to what a column stores. Unlike a variable's, its value may be too long: that is an
// error when it is stored, not a cut.
func (c *compiler) assigned(o operand, column rows.Column) (operand, error) {
	typ := column.Type
	if typ.IsString() || typ.Kind == value.VarBinary {
		typ.Size = value.Max
	}
	if typ.Kind == value.Binary && o.typ.IsBinary() {
		typ = value.Type{Kind: value.VarBinary, Size: value.Max}
	}
	return c.implicit(o, typ)
}

// fitted checks a value against its column and gives it the column's form. statement is for the message.
func (f *frame) fitted(t *rows.Table, column rows.Column, v any, statement string) (any, error) {
	if v == nil {
		if !column.Nullable {
			return nil, sqlerr.NotNull(column.Name, f.threePartName(t), statement)
		}
		return nil, nil
	}
	if fits, head := value.Fit(v, column.Type); !fits {
		return nil, sqlerr.Truncated(f.threePartName(t), column.Name, head)
	}
	return value.Convert(v, column.Type, column.Type)
}

// threePartName is the name of a table in messages.
func (f *frame) threePartName(t *rows.Table) string {
	if t.ID == 0 {
		return "tempdb.dbo.#" + strings.TrimPrefix(t.Name, "@")
	}
	return f.session.node.database + "." + t.FullName()
}

// duplicate is the error of a second row with the same key.
func (f *frame) duplicate(t *rows.Table, row rows.Row) error {
	var parts []string
	for _, place := range t.Key {
		v, err := value.Convert(row[place], t.Columns[place].Type, value.TypeNVarCharMax)
		text, ok := v.(string)
		switch x := row[place].(type) {
		case []byte:
			text = "0x" + hex.EncodeToString(x)
		default:
			if err != nil || !ok {
				text = fmt.Sprint(x)
			}
		}
		parts = append(parts, text)
	}
	name := t.FullName()
	if t.ID == 0 {
		name = "dbo." + t.Name
	}
	return sqlerr.DuplicateKey(t.Indexes[0].Name, name, strings.Join(parts, ", "))
}

// insertRow stores a new row.
func (e *env) insertRow(t *rows.Table, row rows.Row) error {
	if t.ID == 0 {
		panic("engine: a table variable is not stored here")
	}
	if place := t.RowVersion(); place >= 0 {
		if err := e.drawRowVersion(); err != nil {
			return err
		}
		e.storeRowVersion(row, place)
	}
	data := e.session.node.Data()
	var key string
	if len(t.Key) == 0 {
		key = data.NewRowKey()
	} else {
		key = t.KeyOf(row)
	}
	if err := e.lockForInsert(t, key, row); err != nil {
		return err
	}
	if err := e.pass(RowLocked); err != nil {
		return err
	}
	e.write(t, key, row)
	return nil
}

// lockForInsert takes the place of a new row. Where a row is already, a shared lock is enough to see that it is there
// to stay; only a free place is locked exclusively.
func (e *env) lockForInsert(t *rows.Table, key string, row rows.Row) error {
	data := e.session.node.Data()
	resource := rowLock(t, key)
	for {
		if data.Present(t.ID, key) {
			reads := e.statementLocks()
			if err := e.lock(reads, resource, locks.Shared, e.session.lockTimeout); err != nil {
				return err
			}
			existing := data.Get(e.session.transactionRows(), nil, t.ID, key)
			reads.Unlock(resource, locks.Shared)
			if existing != nil {
				return e.duplicate(t, row)
			}
		}
		if err := e.lock(e.session.writing().locks, resource, locks.Exclusive, e.session.lockTimeout); err != nil {
			return err
		}
		if data.Get(e.session.transactionRows(), nil, t.ID, key) == nil {
			return nil
		}
		// Somebody was faster, and has committed. The lock is given back: a refused INSERT keeps none.
		e.session.writing().locks.Unlock(resource, locks.Exclusive)
	}
}

// insertLocal stores a new row in a table variable.
func (e *env) insertLocal(t *localTable, row rows.Row) error {
	if len(t.table.Key) > 0 {
		key := t.table.KeyOf(row)
		if t.keys == nil {
			t.keys = map[string]bool{}
			for _, other := range t.rows {
				t.keys[t.table.KeyOf(other)] = true
			}
		}
		if t.keys[key] {
			return e.duplicate(t.table, row)
		}
		t.keys[key] = true
	}
	t.rows = append(t.rows, row)
	return nil
}

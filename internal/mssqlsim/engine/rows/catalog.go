package rows

import (
	"maps"
	"slices"
	"strings"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// Column is a column of a table.
type Column struct {
	Name      string
	Type      value.Type
	Nullable  bool
	Collation value.Collation // of strings
}

// Index is an index as the catalog shows it. Only the primary key is ever used.
type Index struct {
	ID        int
	Name      string
	Clustered bool
	Columns   []int
	Unique    bool
	Primary   bool
}

// Table is the definition of a table. It is never changed: DDL makes a new one.
type Table struct {
	ID       int
	Schema   string
	Name     string
	Columns  []Column
	Key      []int // places of the primary key's columns; none = a heap
	Indexes  []Index
	Triggers []Trigger
}

// Trigger is an AFTER trigger.
type Trigger struct {
	Name    string
	Actions []string // INSERT, UPDATE, DELETE
	Instead bool     // of the statement, which is refused then, rather than after it
	Text    string   // its statements
}

// Column finds a column by its name; -1 if there is none.
func (t *Table) Column(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) })
}

// RowVersion is the place of the rowversion column, -1 if there is none.
func (t *Table) RowVersion() int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Type.Kind == value.RowVersion })
}

// KeyOf encodes the primary key of a row. Two rows have the same encoding exactly if their keys are equal under the
// columns' collations.
func (t *Table) KeyOf(values []any) string {
	parts := make([]any, len(t.Key))
	for i, place := range t.Key {
		parts[i] = values[place]
	}
	return t.EncodeKey(parts)
}

// EncodeKey is KeyOf for the key's values alone, in the key's order.
func (t *Table) EncodeKey(parts []any) string {
	if len(parts) == 1 {
		return value.Key(t.Columns[t.Key[0]].Collation, parts[0])
	}
	var b strings.Builder
	for i, part := range parts {
		// An escaped separator keeps the order of the parts.
		for _, x := range []byte(value.Key(t.Columns[t.Key[i]].Collation, part)) {
			if b.WriteByte(x); x == 0 {
				b.WriteByte(0xFF)
			}
		}
		b.WriteString("\x00\x00")
	}
	return b.String()
}

// FullName is schema and name.
func (t *Table) FullName() string { return t.Schema + "." + t.Name }

// Catalog is everything that a database knows about itself except the rows. It is never changed once a transaction has
// committed it.
type Catalog struct {
	Schemas map[string]int // by name, to the id
	Tables  []*Table       // by id
	Grants  []Grant
	NextID  int
}

// Grant is a permission that somebody has, or (Deny) must not have.
type Grant struct {
	Principal  string
	Permission string // SELECT, CREATE TABLE, …
	On         string // "" = the database, "schema" or "schema.table", folded with Fold
	Deny       bool
}

// Fold makes a name of the catalog comparable. The simulator's catalog ignores case, as a default server's does.
func Fold(name string) string { return strings.ToLower(name) }

func newCatalog() *Catalog {
	return &Catalog{Schemas: map[string]int{"dbo": 1, "sys": 4}, NextID: 245575913}
}

// Clone returns a copy for DDL to change.
func (c *Catalog) Clone() *Catalog {
	return &Catalog{Schemas: maps.Clone(c.Schemas), Tables: slices.Clone(c.Tables), Grants: slices.Clone(c.Grants), NextID: c.NextID}
}

// Table finds a table.
func (c *Catalog) Table(schema, name string) *Table {
	for _, t := range c.Tables {
		if strings.EqualFold(t.Schema, schema) && strings.EqualFold(t.Name, name) {
			return t
		}
	}
	return nil
}

// Schema finds a schema and returns its name as it was created.
func (c *Catalog) Schema(name string) (string, bool) {
	for known := range c.Schemas {
		if strings.EqualFold(known, name) {
			return known, true
		}
	}
	return "", false
}

// Put adds a table or replaces the one of the same id.
func (c *Catalog) Put(t *Table) {
	if i := slices.IndexFunc(c.Tables, func(other *Table) bool { return other.ID == t.ID }); i >= 0 {
		c.Tables[i] = t
		return
	}
	c.Tables = append(c.Tables, t)
}

// Drop takes a table out.
func (c *Catalog) Drop(id int) {
	c.Tables = slices.DeleteFunc(c.Tables, func(t *Table) bool { return t.ID == id })
}

// TakeID returns an id that no object has.
func (c *Catalog) TakeID() int {
	id := c.NextID
	c.NextID += 16000057 // as SQL Server does, so that nobody takes them for small numbers
	return id
}

package engine

import (
	"slices"
	"strings"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// ddlLock is held exclusively by a transaction that has changed the catalog: one at a time. Whoever reads the catalog
// views waits for it.
func ddlLock() locks.Resource { return locks.Resource{Space: "ddl"} }

// waitForDDL waits until no other session is changing the catalog.
func (f *frame) waitForDDL() error {
	return f.lock(f.statementLocks(), ddlLock(), locks.Shared, f.session.lockTimeout)
}

// definition compiles the statements that change the catalog.
func (c *compiler) definition(node ast.Statement) (body, error) {
	switch n := node.(type) {
	case *ast.CreateSchemaStatement:
		return c.createSchema(n)
	case *ast.CreateTableStatement:
		return c.createTable(n)
	case *ast.CreateIndexStatement:
		return c.createIndex(n)
	case *ast.DropTableStatement:
		return c.dropTable(n)
	case *ast.CreateTriggerStatement:
		return c.createTrigger(n)
	case *ast.GrantStatement:
		return c.grant(n.Permissions, n.Principals, n.SecurityTargetObject, grantIt)
	case *ast.DenyStatement:
		return c.grant(n.Permissions, n.Principals, n.SecurityTargetObject, denyIt)
	case *ast.RevokeStatement:
		return c.grant(n.Permissions, n.Principals, n.SecurityTargetObject, revokeIt)
	}
	return nil, sqlerr.Unsupported("%T", node)
}

// changeCatalog changes the catalog for the running statement: objects are the names that nobody else may use meanwhile.
func (f *frame) changeCatalog(objects []objectName, change func(*rows.Catalog) error) error {
	if err := f.session.node.writable(); err != nil {
		return err
	}
	if err := f.mayWrite(); err != nil {
		return err
	}
	tx := f.session.writing()
	for _, name := range objects {
		if err := f.lock(tx.locks, objectLock(name.schema, name.name), locks.Exclusive, f.session.lockTimeout); err != nil {
			return err
		}
	}
	if err := f.lock(tx.locks, ddlLock(), locks.Exclusive, f.session.lockTimeout); err != nil {
		return err
	}
	// Only now is the catalog sure not to change under the statement's hands.
	current, _ := f.session.catalog()
	next := current.Clone()
	if err := change(next); err != nil {
		return err
	}
	tx.rows.ChangeCatalog(func(own *rows.Catalog) { *own = *next })
	f.session.rowCount = 0
	return nil
}

// allowed checks a permission for a kind of statement.
func (f *frame) allowed(catalog *rows.Catalog, permission string) error {
	if !f.session.who.may(catalog, permission, "") {
		return sqlerr.DeniedStatement(permission, f.session.node.database)
	}
	return nil
}

func (c *compiler) createSchema(n *ast.CreateSchemaStatement) (body, error) {
	if n.StatementList != nil && len(n.StatementList.Statements) > 0 {
		return nil, sqlerr.Unsupported("CREATE SCHEMA with anything in it")
	}
	if len(c.batch.Statements) != 1 {
		return nil, sqlerr.New(111, "'CREATE SCHEMA' must be the first statement in a query batch.").With(15, 1).Ends(sqlerr.EndsCompilation)
	}
	name := n.Name.Value
	return func(f *frame) error {
		return f.changeCatalog(nil, func(catalog *rows.Catalog) error {
			if err := f.allowed(catalog, "CREATE SCHEMA"); err != nil {
				return err
			}
			if _, exists := catalog.Schema(name); exists {
				return sqlerr.Exists(name)
			}
			catalog.Schemas[name] = 5 + len(catalog.Schemas)
			return nil
		})
	}, nil
}

// definedName splits the name of an object that is defined.
func definedName(n *ast.SchemaObjectName) (schema, name string, err error) {
	if n.Count > 2 {
		return "", "", sqlerr.Unsupported("a name with the database in it")
	}
	schema, name = "dbo", n.BaseIdentifier.Value
	if n.SchemaIdentifier != nil {
		schema = n.SchemaIdentifier.Value
	}
	if strings.HasPrefix(name, "#") {
		return "", "", sqlerr.Unsupported("temporary tables")
	}
	return schema, name, nil
}

func (c *compiler) createTable(n *ast.CreateTableStatement) (body, error) {
	schema, name, err := definedName(n.SchemaObjectName)
	if err != nil {
		return nil, err
	}
	table, err := c.tableDefinition(n.Definition, schema, name)
	if err != nil {
		return nil, err
	}
	return func(f *frame) error {
		return f.changeCatalog([]objectName{{schema: schema, name: name}}, func(catalog *rows.Catalog) error {
			if err := f.allowed(catalog, "CREATE TABLE"); err != nil {
				return err
			}
			known, exists := catalog.Schema(schema)
			if !exists || !f.session.who.may(catalog, "ALTER", schema) {
				return sqlerr.NoSchema(schema)
			}
			if catalog.Table(schema, name) != nil {
				return sqlerr.Exists(name)
			}
			created := *table
			created.Schema, created.ID = known, catalog.TakeID()
			if len(created.Indexes) > 0 && constraintExists(catalog, created.Schema, created.Indexes[0].Name) {
				f.report(sqlerr.Exists(created.Indexes[0].Name).With(16, 5).At(f.leaf.line))
				return sqlerr.New(1750, "Could not create constraint or index. See previous errors.").With(16, 0)
			}
			catalog.Put(&created)
			return nil
		})
	}, nil
}

// constraintExists: the name of a constraint is that of an object of the schema.
func constraintExists(catalog *rows.Catalog, schema, name string) bool {
	return slices.ContainsFunc(catalog.Tables, func(t *rows.Table) bool {
		return sameName(t.Schema, schema) && (sameName(t.Name, name) ||
			slices.ContainsFunc(t.Indexes, func(i rows.Index) bool { return i.Primary && sameName(i.Name, name) }))
	})
}

// tableDefinition reads the columns and the primary key of a table, or of a table variable (no schema).
func (c *compiler) tableDefinition(n *ast.TableDefinition, schema, name string) (*rows.Table, error) {
	t := &rows.Table{Schema: schema, Name: name}
	var key []string
	var primary *ast.UniqueConstraintDefinition
	setKey := func(u *ast.UniqueConstraintDefinition, columns []string) error {
		switch {
		case !u.IsPrimaryKey:
			return sqlerr.Unsupported("UNIQUE")
		case primary != nil:
			return sqlerr.New(8110, "Cannot add multiple PRIMARY KEY constraints to table '%s'.", name).With(16, 0).Ends(sqlerr.EndsCompilation)
		case u.IndexType != nil && u.IndexType.IndexTypeKind == "NonClustered":
			return sqlerr.Unsupported("a nonclustered primary key")
		}
		primary, key = u, columns
		return nil
	}
	for _, definition := range n.ColumnDefinitions {
		column, own, err := c.columnDefinition(definition)
		if err != nil {
			return nil, err
		}
		if t.Column(column.Name) >= 0 {
			return nil, sqlerr.New(2705, "Column names in each table must be unique. Column name '%s' in table '%s' is specified more than once.", column.Name, name).Ends(sqlerr.EndsCompilation)
		}
		t.Columns = append(t.Columns, column)
		if own != nil {
			if err := setKey(own, []string{column.Name}); err != nil {
				return nil, err
			}
		}
	}
	for _, constraint := range n.TableConstraints {
		u, ok := constraint.(*ast.UniqueConstraintDefinition)
		if !ok {
			return nil, sqlerr.Unsupported("%T", constraint)
		}
		columns, err := indexColumns(u.Columns)
		if err != nil {
			return nil, err
		}
		if err := setKey(u, columns); err != nil {
			return nil, err
		}
	}
	if primary == nil {
		return t, nil
	}
	return t, setPrimaryKey(t, primary, key)
}

func (c *compiler) columnDefinition(n *ast.ColumnDefinition) (rows.Column, *ast.UniqueConstraintDefinition, error) {
	typ, err := c.dataType(n.DataType)
	if err != nil {
		return rows.Column{}, nil, err
	}
	column := rows.Column{Name: n.ColumnIdentifier.Value, Type: typ, Nullable: true}
	if typ.Kind == value.RowVersion {
		column.Nullable = false
	}
	var key *ast.UniqueConstraintDefinition
	for _, constraint := range n.Constraints {
		switch k := constraint.(type) {
		case *ast.NullableConstraintDefinition:
			column.Nullable = k.Nullable
		case *ast.UniqueConstraintDefinition:
			key, column.Nullable = k, false
		default:
			return column, nil, sqlerr.Unsupported("%T", k)
		}
	}
	if n.Nullable != nil {
		column.Nullable = n.Nullable.Nullable
	}
	spanned, ok := n.DataType.(interface {
		HasSpan() bool
		EndOffset() int
	})
	if !ok {
		return column, nil, sqlerr.Unsupported("%T", n.DataType)
	}
	collation, found, err := c.collation(spanned)
	switch {
	case err != nil:
		return column, nil, err
	case found && !typ.IsString():
		return column, nil, sqlerr.New(452, "COLLATE clause cannot be used on user-defined data types.").Ends(sqlerr.EndsCompilation)
	case found:
		column.Collation = collation
	case typ.IsString():
		column.Collation = c.session.node.collation
	}
	return column, key, nil
}

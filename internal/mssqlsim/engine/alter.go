package engine

import (
	"slices"
	"strings"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
)

func indexColumns(nodes []*ast.ColumnWithSortOrder) ([]string, error) {
	var columns []string
	for _, node := range nodes {
		if node.SortOrder == ast.SortOrderDescending {
			return nil, sqlerr.Unsupported("a descending index")
		}
		parts := node.Column.MultiPartIdentifier.Identifiers
		columns = append(columns, parts[len(parts)-1].Value)
	}
	return columns, nil
}

func setPrimaryKey(t *rows.Table, n *ast.UniqueConstraintDefinition, columns []string) error {
	for _, name := range columns {
		place := t.Column(name)
		if place < 0 {
			return sqlerr.NoColumn(name)
		}
		t.Columns[place].Nullable = false
		t.Key = append(t.Key, place)
	}
	name := "PK__" + strings.TrimPrefix(t.Name, "@")
	if n.ConstraintIdentifier != nil {
		name = n.ConstraintIdentifier.Value
	}
	t.Indexes = append(t.Indexes, rows.Index{ID: 1, Name: name, Clustered: true, Unique: true, Primary: true, Columns: t.Key})
	return nil
}

// altered is the base table of a DDL statement, as the transaction sees it, for somebody who may change it.
func (f *frame) altered(catalog *rows.Catalog, schema, name string) (*rows.Table, error) {
	t := catalog.Table(schema, name)
	if t == nil || !f.session.who.may(catalog, "ALTER", t.FullName()) {
		return nil, sqlerr.New(1088, "Cannot find the object \"%s.%s\" because it does not exist or you do not have permissions.", schema, name).With(16, 12)
	}
	return t, nil
}

// createIndex makes an index that the catalog shows and nothing uses.
func (c *compiler) createIndex(n *ast.CreateIndexStatement) (body, error) {
	schema, name, err := definedName(n.OnName)
	if err != nil {
		return nil, err
	}
	if n.Clustered != nil && *n.Clustered {
		return nil, sqlerr.Unsupported("a clustered index that is no primary key")
	}
	columns, err := indexColumns(n.Columns)
	if err != nil {
		return nil, err
	}
	return func(f *frame) error {
		return f.changeCatalog([]objectName{{schema: schema, name: name}}, func(catalog *rows.Catalog) error {
			t, err := f.altered(catalog, schema, name)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(t.Indexes, func(i rows.Index) bool { return sameName(i.Name, n.Name.Value) }) {
				return sqlerr.IndexExists(n.Name.Value, t.FullName())
			}
			index := rows.Index{ID: 2, Name: n.Name.Value}
			for _, other := range t.Indexes {
				if !other.Clustered {
					index.ID++
				}
			}
			for _, column := range columns {
				place := t.Column(column)
				if place < 0 {
					return sqlerr.New(1911, "Column name '%s' does not exist in the target table or view.", column)
				}
				index.Columns = append(index.Columns, place)
			}
			changed := *t
			changed.Indexes = append(slices.Clone(t.Indexes), index)
			catalog.Put(&changed)
			return nil
		})
	}, nil
}

func (c *compiler) dropTable(n *ast.DropTableStatement) (body, error) {
	var names []objectName
	for _, node := range n.Objects {
		schema, name, err := definedName(node)
		if err != nil {
			return nil, err
		}
		names = append(names, objectName{schema: schema, name: name})
	}
	return func(f *frame) error {
		return f.changeCatalog(names, func(catalog *rows.Catalog) error {
			for _, name := range names {
				t := catalog.Table(name.schema, name.name)
				switch {
				case t != nil && f.session.who.may(catalog, "ALTER", t.FullName()):
					catalog.Drop(t.ID)
				case t != nil || !n.IsIfExists:
					return sqlerr.NoDrop(name.schema + "." + name.name)
				}
			}
			return nil
		})
	}, nil
}

type grantKind uint8

const (
	grantIt grantKind = iota
	denyIt
	revokeIt
)

func (c *compiler) grant(permissions []*ast.Permission, to []*ast.SecurityPrincipal, on *ast.SecurityTargetObject, kind grantKind) (body, error) {
	var wanted []string
	for _, p := range permissions {
		var words []string
		for _, word := range p.Identifiers {
			words = append(words, strings.ToUpper(word.Value))
		}
		name := strings.Join(words, " ")
		if !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "ALTER", "CONTROL", "REFERENCES",
			"VIEW DEFINITION", "CREATE TABLE", "CREATE SCHEMA"}, name) {
			return nil, sqlerr.Unsupported("the permission %s", name)
		}
		wanted = append(wanted, name)
	}
	schema, name := "", ""
	if on != nil {
		parts := on.ObjectName.MultiPartIdentifier.Identifiers
		switch {
		case on.ObjectKind == "Schema" && len(parts) == 1:
			schema = parts[0].Value
		case on.ObjectKind == "Schema" || len(parts) > 2:
			return nil, sqlerr.Unsupported("a permission on a name of %d parts", len(parts))
		case len(parts) == 1:
			schema, name = "dbo", parts[0].Value
		default:
			schema, name = parts[0].Value, parts[1].Value
		}
	}
	return func(f *frame) error {
		return f.changeCatalog(nil, func(catalog *rows.Catalog) error {
			return f.changeGrants(catalog, wanted, to, schema, name, kind)
		})
	}, nil
}

func (f *frame) changeGrants(catalog *rows.Catalog, permissions []string, to []*ast.SecurityPrincipal, schema, name string, kind grantKind) error {
	if !f.session.who.owner {
		return sqlerr.New(4613, "Grantor does not have GRANT permission.")
	}
	target := rows.Fold(schema)
	if name != "" {
		if catalog.Table(schema, name) == nil {
			return sqlerr.New(15151, "Cannot find the object '%s', because it does not exist or you do not have permission.", name)
		}
		target += "." + rows.Fold(name)
	} else if _, exists := catalog.Schema(schema); schema != "" && !exists {
		return sqlerr.New(15151, "Cannot find the schema '%s', because it does not exist or you do not have permission.", schema)
	}
	for _, principal := range to {
		who, known := f.session.node.known(principal.Identifier.Value)
		if !known {
			return sqlerr.NoPrincipal(principal.Identifier.Value)
		}
		for _, permission := range permissions {
			// A new word on the same permission replaces the old one.
			catalog.Grants = slices.DeleteFunc(catalog.Grants, func(g rows.Grant) bool {
				return g.Principal == who && g.Permission == permission && g.On == target
			})
			if kind != revokeIt {
				catalog.Grants = append(catalog.Grants, rows.Grant{Principal: who, Permission: permission, On: target, Deny: kind == denyIt})
			}
		}
	}
	return nil
}
